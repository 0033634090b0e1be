/* schema.c - the tables of results.db, as text: what users query and docs/results.md explains. */
#include "report/results.h"

const char espl__results_schema[] =
    "CREATE TABLE meta ("
    "  key TEXT PRIMARY KEY, value) WITHOUT ROWID;\n"
    "CREATE TABLE trials ("
    "  id INTEGER PRIMARY KEY,"
    "  parent INTEGER," /* trial it was cloned from */
    "  tag INTEGER,"    /* the algorithm's own mark (a rung, a generation) */
    "  group_id INTEGER,"
    "  state TEXT NOT NULL," /* waiting running paused completed 'stopped early' unfinished failed
			      */
    "  iteration INTEGER NOT NULL," /* done */
    "  budget INTEGER NOT NULL,"    /* trains up to */
    "  checkpoint INTEGER,"         /* iteration of the newest one */
    "  metric REAL,"                /* the objective as last reported */
    "  gpu_s REAL NOT NULL,"
    "  cost_usd REAL NOT NULL,"
    "  created_s REAL NOT NULL,"
    "  changed_s REAL NOT NULL,"
    "  params TEXT NOT NULL," /* a JSON object */
    "  feasible INTEGER);\n"  /* it meets experiment.require: 1 yes, 0 no, NULL not known */
    "CREATE TABLE reports ("
    "  trial INTEGER NOT NULL, iteration INTEGER NOT NULL,"
    "  at_s REAL NOT NULL,"
    "  metric REAL," /* the objective; NULL: the trial reported NaN, or no value */
    "  gpus INTEGER NOT NULL, packing INTEGER NOT NULL,"
    "  PRIMARY KEY (trial, iteration)) WITHOUT ROWID;\n"
    "CREATE TABLE improvements (" /* reports better than all before; the last is the best ever */
    "  trial INTEGER NOT NULL, iteration INTEGER NOT NULL, at_s REAL NOT NULL,"
    "  metric REAL NOT NULL, PRIMARY KEY (trial, iteration)) WITHOUT ROWID;\n"
    "CREATE TABLE configurations (" /* with experiment.seeds */
    "  id INTEGER PRIMARY KEY,"
    "  first_trial INTEGER NOT NULL, trials INTEGER NOT NULL," /* it has these, one by one */
    "  counted INTEGER NOT NULL," /* of which metric is the mean; others failed */
    "  iteration INTEGER NOT NULL,"
    "  metric REAL, spread REAL);\n" /* spread: standard deviation; NULL of one */
    "CREATE TABLE metric_names (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\n"
    "CREATE TABLE metrics (" /* of every report, all but the objective, which is name 0 */
    "  trial INTEGER NOT NULL, iteration INTEGER NOT NULL, name_id INTEGER NOT NULL, value REAL,"
    "  PRIMARY KEY (trial, iteration, name_id)) WITHOUT ROWID;\n"
    "CREATE TABLE gangs ("
    "  id INTEGER PRIMARY KEY, trial INTEGER NOT NULL,"
    "  gpus INTEGER NOT NULL, packing INTEGER NOT NULL,"
    "  slots TEXT NOT NULL," /* [[node, gpu], ...] in order of rank */
    "  state TEXT NOT NULL,"
    "  starting_s REAL NOT NULL, running_s REAL, ended_s REAL,"
    "  text TEXT,"                            /* how it ended */
    "  from_iteration INTEGER NOT NULL,"      /* of the checkpoint it began with; 0: from nothing */
    "  failed INTEGER NOT NULL DEFAULT 0);\n" /* 1: a failed attempt, counted against retries */
    "CREATE INDEX gangs_by_trial ON gangs (trial);\n"
    "CREATE TABLE moves (" /* resizes in place: what a gang left, and what that took */
    "  gang INTEGER NOT NULL, number INTEGER NOT NULL," /* 1, 2, ... of the gang */
    "  at_s REAL NOT NULL,"
    "  took_s REAL," /* pause of training as measured by rank 0 */
    "  gpus INTEGER NOT NULL, packing INTEGER NOT NULL, slots TEXT NOT NULL,"
    "  PRIMARY KEY (gang, number)) WITHOUT ROWID;\n"
    "CREATE TABLE nodes ("
    "  id INTEGER PRIMARY KEY,"
    "  offer TEXT, market TEXT, gpus INTEGER,"
    "  state TEXT NOT NULL," /* requested booting ready notice ended */
    "  requested_s REAL NOT NULL, booting_s REAL, ready_s REAL, notice_s REAL, ended_s REAL,"
    "  billed_from_s REAL,"
    "  price_hour REAL,"
    "  charged_usd REAL NOT NULL,"
    "  why TEXT,"
    "  host TEXT);\n"         /* what the provider calls the machine */
    "CREATE TABLE machines (" /* what is known of each, over all its leases */
    "  offer TEXT NOT NULL, market TEXT NOT NULL,"
    "  machine TEXT NOT NULL,"     /* its provider's name for it; 'node N': it has none */
    "  node INTEGER NOT NULL,"     /* the newest lease */
    "  health TEXT NOT NULL,"      /* good avoided drained */
    "  failures INTEGER NOT NULL," /* in a row */
    "  reported_s REAL,"           /* the first report of a trial there */
    "  failed_s REAL, avoid_until_s REAL,"
    "  why TEXT," /* the last failure */
    "  PRIMARY KEY (offer, market, machine)) WITHOUT ROWID;\n"
    "CREATE TABLE charges (" /* sums up to nodes.charged_usd and to the cost */
    "  node INTEGER NOT NULL, at_s REAL NOT NULL, usd REAL NOT NULL);\n"
    "CREATE TABLE groups ("
    "  id INTEGER PRIMARY KEY, bracket INTEGER, stage INTEGER,"
    "  begun_s REAL NOT NULL, ended_s REAL);\n"
    "CREATE TABLE predictions ("  /* of each plan that came in force, when it did */
    "  plan INTEGER PRIMARY KEY," /* 0, 1, ... */
    "  at_s REAL NOT NULL,"
    "  ends_s REAL, ends_sd_s REAL, ends_p95_s REAL,"
    "  cost_usd REAL, cost_sd_usd REAL, cost_p95_usd REAL," /* from at_s on */
    "  data_usd REAL,"                                      /* part of it */
    "  optimal INTEGER NOT NULL, gap REAL);\n"
    "CREATE TABLE plan (" /* its stages */
    "  plan INTEGER NOT NULL, bracket INTEGER NOT NULL, stage INTEGER NOT NULL,"
    "  trials INTEGER NOT NULL, iterations INTEGER NOT NULL,"
    "  gpus INTEGER NOT NULL, gpus_per_trial INTEGER NOT NULL, nodes INTEGER NOT NULL,"
    "  offer TEXT, starts_s REAL, ends_s REAL, cost_usd REAL,"
    "  warm INTEGER NOT NULL," /* trials continue in their processes */
    "  PRIMARY KEY (plan, bracket, stage)) WITHOUT ROWID;\n"
    "CREATE TABLE decisions (" /* what became of trials, in order */
    "  id INTEGER PRIMARY KEY,"
    "  at_s REAL NOT NULL, trial INTEGER NOT NULL,"
    "  what TEXT NOT NULL," /* created promoted budget started displaced retried queued, or the
			       state it left to */
    "  group_id INTEGER, iteration INTEGER, budget INTEGER);\n"
    "CREATE INDEX decisions_by_trial ON decisions (trial);\n"
    "CREATE TABLE notes (" /* reasons */
    "  id INTEGER PRIMARY KEY,"
    "  at_s REAL NOT NULL, who TEXT NOT NULL,"
    "  subject TEXT NOT NULL," /* run trial item group node offer */
    "  subject_id INTEGER, text TEXT NOT NULL);\n"
    "CREATE INDEX notes_by_subject ON notes (subject, subject_id);\n"
    "CREATE TABLE trial_notes (" /* texts that a trial, or its user, has attached to it */
    "  trial INTEGER NOT NULL, key TEXT NOT NULL, at_s REAL NOT NULL, text TEXT NOT NULL,"
    "  PRIMARY KEY (trial, key)) WITHOUT ROWID;\n"
    "CREATE TABLE experiments (" /* of a pool; a trial's is its id >> 40 */
    "  id INTEGER PRIMARY KEY, name TEXT NOT NULL, metric TEXT NOT NULL, goal TEXT NOT NULL,"
    "  status TEXT NOT NULL," /* to come, running, waiting, idle, done, ... */
    "  arrived_s REAL, ended_s REAL,"
    "  trials INTEGER NOT NULL, completed INTEGER NOT NULL, failed INTEGER NOT NULL,"
    "  best INTEGER, best_metric REAL,"                                     /* best: trials.id */
    "  gpu_s REAL NOT NULL, cost_usd REAL NOT NULL, gpus INTEGER NOT NULL," /* gpus: held now */
    "  text TEXT,"                                                          /* why it ended so */
    "  stopped_early INTEGER NOT NULL,"
    "  ever INTEGER, ever_metric REAL, ever_iteration INTEGER, ever_s REAL);\n" /* best report */
    "CREATE TABLE jobs (" /* plain ones; trials.id is the same */
    "  id INTEGER PRIMARY KEY, name TEXT NOT NULL,"
    "  work_s REAL NOT NULL, eta_s REAL, nodes_min INTEGER NOT NULL, nodes_max INTEGER NOT NULL,"
    "  weight REAL NOT NULL, fate TEXT NOT NULL,"
    "  arrived_s REAL, started_s REAL, ended_s REAL," /* arrived_s NULL: it is still to come */
    "  status TEXT NOT NULL);\n" /* to come, waiting, running, done, failed, cancelled */
    "CREATE VIEW report_metrics AS"
    "  SELECT trial, iteration, coalesce((SELECT metric FROM experiments WHERE id = trial >> 40),"
    "  (SELECT name FROM metric_names WHERE id = 0)) AS name,"
    "  metric AS value FROM reports UNION ALL"
    "  SELECT trial, iteration, name, value FROM metrics JOIN metric_names ON id = name_id;\n"
    /* Each stay of a gang on slots: those that it left in place, and its last. */
    "CREATE VIEW stays AS"
    " SELECT m.gang AS gang, m.number - 1 AS number, g.trial AS trial, m.gpus AS gpus, m.packing "
    "AS packing,"
    "  m.slots AS slots,"
    "  coalesce((SELECT at_s FROM moves WHERE gang = m.gang AND number = m.number - 1), "
    "g.starting_s) AS from_s,"
    "  m.at_s AS until_s,"
    "  (SELECT took_s FROM moves WHERE gang = m.gang AND number = m.number - 1) AS pause_s"
    " FROM moves m JOIN gangs g ON g.id = m.gang"
    " UNION ALL SELECT id, (SELECT count(*) FROM moves WHERE gang = id), trial, gpus, packing, "
    "slots,"
    "  coalesce((SELECT max(at_s) FROM moves WHERE gang = id), starting_s), ended_s,"
    "  (SELECT took_s FROM moves WHERE gang = id ORDER BY number DESC LIMIT 1) FROM gangs;\n"
    /* What became of a trial's share while it trained: in place, or by a checkpoint and a new gang.
     * from_s, until_s: of the stay before and of the one behind; at_s between the two. */
    "CREATE VIEW changes AS"
    " SELECT g.trial AS trial, m.gang AS gang, m.at_s AS at_s, 1 AS in_place, m.took_s AS took_s,"
    "  m.gpus AS gpus_before, m.packing AS packing_before,"
    "  coalesce((SELECT gpus FROM moves WHERE gang = m.gang AND number = m.number + 1), g.gpus) AS "
    "gpus,"
    "  coalesce((SELECT packing FROM moves WHERE gang = m.gang AND number = m.number + 1), "
    "g.packing) AS packing,"
    "  coalesce((SELECT at_s FROM moves WHERE gang = m.gang AND number = m.number - 1), "
    "g.starting_s) AS from_s,"
    "  coalesce((SELECT at_s FROM moves WHERE gang = m.gang AND number = m.number + 1), g.ended_s) "
    "AS until_s"
    " FROM moves m JOIN gangs g ON g.id = m.gang"
    " UNION ALL SELECT n.trial, n.id, o.ended_s, 0, NULL, o.gpus, o.packing,"
    "  coalesce((SELECT gpus FROM moves WHERE gang = n.id AND number = 1), n.gpus),"
    "  coalesce((SELECT packing FROM moves WHERE gang = n.id AND number = 1), n.packing),"
    "  coalesce((SELECT max(at_s) FROM moves WHERE gang = o.id), o.starting_s),"
    "  coalesce((SELECT at_s FROM moves WHERE gang = n.id AND number = 1), n.ended_s)"
    " FROM decisions d JOIN gangs o ON o.trial = d.trial AND o.ended_s = d.at_s AND o.text IS NULL"
    " JOIN gangs n ON n.id = (SELECT min(id) FROM gangs WHERE trial = d.trial AND id > o.id)"
    " WHERE d.what = 'displaced';\n"
    /* The iterations that it is about: begun and done are those of the stay before, last of the one
       behind. */
    "CREATE VIEW resizes AS"
    " SELECT trial, gang, at_s, in_place, gpus_before, packing_before, gpus, packing,"
    "  coalesce(took_s, next_s - done_s - (last_s - next_s) / (last - done - 1)) AS pause_s,"
    "  CASE WHEN done > begun THEN (done_s - begun_s) / (done - begun) END AS iteration_before_s,"
    "  CASE WHEN last > done + 1 THEN (last_s - next_s) / (last - done - 1) END AS iteration_s,"
    "  last - done AS iterations,"
    "  CASE WHEN done > begun AND last > done THEN (last - done) * (done_s - begun_s) / (done - "
    "begun)"
    "   - (last_s - done_s) END AS gained_s,"
    "  (until_s - at_s) * (1.0 * gpus / packing - 1.0 * gpus_before / packing_before) AS more_gpu_s"
    " FROM (SELECT c.*,"
    "   (SELECT at_s FROM reports WHERE trial = c.trial AND iteration = begun) AS begun_s,"
    "   (SELECT at_s FROM reports WHERE trial = c.trial AND iteration = done) AS done_s,"
    "   (SELECT at_s FROM reports WHERE trial = c.trial AND iteration = done + 1) AS next_s,"
    "   (SELECT at_s FROM reports WHERE trial = c.trial AND iteration = last) AS last_s"
    "  FROM (SELECT h.*,"
    "    (SELECT min(iteration) FROM reports WHERE trial = h.trial AND at_s > h.from_s) AS begun,"
    "    (SELECT max(iteration) FROM reports WHERE trial = h.trial AND at_s <= h.at_s) AS done,"
    "    (SELECT max(iteration) FROM reports WHERE trial = h.trial AND (h.until_s IS NULL OR at_s "
    "<= h.until_s)) AS last"
    "   FROM changes h WHERE gpus * packing_before <> gpus_before * packing) c);\n";
