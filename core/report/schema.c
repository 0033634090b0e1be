/* schema.c - the tables of results.db, as text: what users query and docs/results.md explains. */
#include "report/results.h"

const char espl__results_schema[] =
"CREATE TABLE meta ("
"  key TEXT PRIMARY KEY, value) WITHOUT ROWID;\n"
"CREATE TABLE trials ("
"  id INTEGER PRIMARY KEY,"
"  parent INTEGER,"			/* trial it was cloned from */
"  tag INTEGER,"			/* the algorithm's own mark (a rung, a generation) */
"  group_id INTEGER,"
"  state TEXT NOT NULL,"		/* waiting running resting ended failed */
"  iteration INTEGER NOT NULL,"		/* done */
"  budget INTEGER NOT NULL,"		/* trains up to */
"  checkpoint INTEGER,"			/* iteration of the newest one */
"  metric REAL,"			/* the objective as last reported */
"  gpu_s REAL NOT NULL,"
"  cost_usd REAL NOT NULL,"
"  created_s REAL NOT NULL,"
"  changed_s REAL NOT NULL,"
"  params TEXT NOT NULL);\n"		/* a JSON object */
"CREATE TABLE reports ("
"  trial INTEGER NOT NULL, iteration INTEGER NOT NULL,"
"  at_s REAL NOT NULL,"
"  metric REAL,"			/* the objective; NULL: the trial said NaN, or nothing */
"  gpus INTEGER NOT NULL, packing INTEGER NOT NULL,"
"  PRIMARY KEY (trial, iteration)) WITHOUT ROWID;\n"
"CREATE TABLE metric_names (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\n"
"CREATE TABLE metrics ("		/* of every report, all but the objective, which is name 0 */
"  trial INTEGER NOT NULL, iteration INTEGER NOT NULL, name_id INTEGER NOT NULL, value REAL,"
"  PRIMARY KEY (trial, iteration, name_id)) WITHOUT ROWID;\n"
"CREATE TABLE gangs ("
"  id INTEGER PRIMARY KEY, trial INTEGER NOT NULL,"
"  gpus INTEGER NOT NULL, packing INTEGER NOT NULL,"
"  slots TEXT NOT NULL,"		/* [[node, gpu], ...] in order of rank */
"  state TEXT NOT NULL,"
"  starting_s REAL NOT NULL, running_s REAL, ended_s REAL,"
"  text TEXT);\n"			/* how it ended */
"CREATE INDEX gangs_by_trial ON gangs (trial);\n"
"CREATE TABLE nodes ("
"  id INTEGER PRIMARY KEY,"
"  offer TEXT, market TEXT, gpus INTEGER,"
"  state TEXT NOT NULL,"		/* requested booting ready notice ended */
"  requested_s REAL NOT NULL, booting_s REAL, ready_s REAL, notice_s REAL, ended_s REAL,"
"  billed_from_s REAL,"
"  price_hour REAL,"
"  charged_usd REAL NOT NULL,"
"  why TEXT);\n"
"CREATE TABLE charges ("		/* sums up to nodes.charged_usd and to the cost */
"  node INTEGER NOT NULL, at_s REAL NOT NULL, usd REAL NOT NULL);\n"
"CREATE TABLE groups ("
"  id INTEGER PRIMARY KEY, bracket INTEGER, stage INTEGER,"
"  begun_s REAL NOT NULL, ended_s REAL);\n"
"CREATE TABLE predictions ("		/* of each plan that came in force, when it did */
"  plan INTEGER PRIMARY KEY,"		/* 0, 1, ... */
"  at_s REAL NOT NULL,"
"  ends_s REAL, ends_sd_s REAL, ends_p95_s REAL,"
"  cost_usd REAL, cost_sd_usd REAL, cost_p95_usd REAL,"	/* from at_s on */
"  data_usd REAL,"			/* part of it */
"  optimal INTEGER NOT NULL, gap REAL);\n"
"CREATE TABLE plan ("			/* its stages */
"  plan INTEGER NOT NULL, bracket INTEGER NOT NULL, stage INTEGER NOT NULL,"
"  trials INTEGER NOT NULL, iterations INTEGER NOT NULL,"
"  gpus INTEGER NOT NULL, gpus_per_trial INTEGER NOT NULL, nodes INTEGER NOT NULL,"
"  offer TEXT, starts_s REAL, ends_s REAL, cost_usd REAL,"
"  warm INTEGER NOT NULL,"		/* trials go on in their processes */
"  PRIMARY KEY (plan, bracket, stage)) WITHOUT ROWID;\n"
"CREATE TABLE decisions ("		/* what became of trials, in order */
"  id INTEGER PRIMARY KEY,"
"  at_s REAL NOT NULL, trial INTEGER NOT NULL,"
"  what TEXT NOT NULL,"		/* created promoted budget started rests displaced retried ... */
"  group_id INTEGER, iteration INTEGER, budget INTEGER);\n"
"CREATE INDEX decisions_by_trial ON decisions (trial);\n"
"CREATE TABLE notes ("			/* reasons */
"  id INTEGER PRIMARY KEY,"
"  at_s REAL NOT NULL, who TEXT NOT NULL,"
"  subject TEXT NOT NULL,"		/* run trial item group node offer */
"  subject_id INTEGER, text TEXT NOT NULL);\n"
"CREATE INDEX notes_by_subject ON notes (subject, subject_id);\n"
"CREATE TABLE experiments ("		/* of a pool; a trial's is its id >> 40 */
"  id INTEGER PRIMARY KEY, name TEXT NOT NULL, metric TEXT NOT NULL, goal TEXT NOT NULL,"
"  status TEXT NOT NULL,"		/* to come, running, waiting, idle, done, ... */
"  arrived_s REAL, ended_s REAL,"
"  trials INTEGER NOT NULL, completed INTEGER NOT NULL, failed INTEGER NOT NULL,"
"  best INTEGER, best_metric REAL,"	/* best: trials.id */
"  gpu_s REAL NOT NULL, cost_usd REAL NOT NULL, gpus INTEGER NOT NULL,"	/* gpus: held now */
"  text TEXT);\n"			/* why it ended so */
"CREATE TABLE jobs ("			/* plain ones; trials.id is the same */
"  id INTEGER PRIMARY KEY, name TEXT NOT NULL,"
"  work_s REAL NOT NULL, eta_s REAL, nodes_min INTEGER NOT NULL, nodes_max INTEGER NOT NULL,"
"  weight REAL NOT NULL, fate TEXT NOT NULL,"
"  arrived_s REAL NOT NULL, started_s REAL, ended_s REAL,"
"  status TEXT NOT NULL);\n"		/* waiting running done failed */
"CREATE VIEW report_metrics AS"
"  SELECT trial, iteration, coalesce((SELECT metric FROM experiments WHERE id = trial >> 40),"
"  (SELECT name FROM metric_names WHERE id = 0)) AS name,"
"  metric AS value FROM reports UNION ALL"
"  SELECT trial, iteration, name, value FROM metrics JOIN metric_names ON id = name_id;\n";
