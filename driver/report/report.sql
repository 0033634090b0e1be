-- report.sql - what the page of `espalier report` draws, read from results.db.
--
-- The rows of a statement below a line "-- @NAME" become NAME in the data of the page; the other
-- statements prepare temporary tables.  :now, :deadline and :fixed (the end of the static plan)
-- are in seconds or NULL.  All that comes from results.db is untrusted: values are clamped.

CREATE TEMP TABLE fact AS
SELECT :now AS now, CASE WHEN NOT (longest > 0 AND longest < 1e15) THEN 1
  WHEN :deadline > longest AND :deadline < 1.3 * longest THEN 1.01 * :deadline
  ELSE 1.01 * longest END AS end_s
FROM (SELECT max(:now, ifnull(:fixed, 0),
  ifnull((SELECT max(ends_s) FROM predictions WHERE ends_s < 1e15), 0)) AS longest);

CREATE TEMP TABLE machine AS
SELECT row_number() OVER (ORDER BY id) - 1 AS n, id, substr(offer, 1, 61) AS offer,
  substr(market, 1, 31) AS market,
  max(1, min(1024, ifnull(gpus, 1))) AS gpus, state, requested_s, booting_s, ready_s, notice_s,
  ended_s, billed_from_s, price_hour, charged_usd, substr(why, 1, 121) AS why
FROM nodes;
CREATE INDEX temp.machine_id ON machine (id);

-- ---- stages: of a pool its experiments (0: the plain jobs), else those that are declared, else
-- the budgets where these are few; `key` finds the stage of a decision --------------------------

CREATE TEMP TABLE stage (n INTEGER PRIMARY KEY, kind, key, bracket, number, name, begun_s, ended_s);
INSERT INTO stage (kind, key, bracket, number, name, begun_s, ended_s)
SELECT 'pool', id, id, id, name, arrived_s, ended_s FROM (
  SELECT 0 AS id, min(arrived_s) AS arrived_s, NULL AS name,
    CASE WHEN count(*) = count(ended_s) THEN max(ended_s) END AS ended_s
  FROM jobs GROUP BY NULL HAVING count(arrived_s) > 0
  UNION ALL SELECT id, arrived_s, name, ended_s FROM experiments WHERE arrived_s IS NOT NULL)
ORDER BY id;
INSERT INTO stage (kind, key, bracket, number, begun_s, ended_s)
SELECT 'declared', bracket || '/' || stage, bracket, stage, min(begun_s),
  CASE WHEN count(*) = count(ended_s) THEN max(ended_s) END
FROM groups
WHERE bracket IS NOT NULL AND stage IS NOT NULL AND NOT EXISTS (SELECT 1 FROM stage)
GROUP BY bracket, stage ORDER BY bracket, stage LIMIT 1000;
INSERT INTO stage (kind, key, bracket, number)
SELECT 'budget', budget, -1, row_number() OVER (ORDER BY budget) - 1 FROM (
  SELECT budget, count(*) OVER () AS budgets FROM (SELECT DISTINCT budget FROM decisions
    WHERE what IN ('created', 'promoted', 'budget', 'queued', 'started') AND budget IS NOT NULL))
WHERE budgets <= 12 AND NOT EXISTS (SELECT 1 FROM stage);

CREATE TEMP TABLE step AS
SELECT d.id, d.trial, d.at_s, d.budget, s.n AS stage
FROM decisions d LEFT JOIN groups g ON g.id = d.group_id
JOIN stage s ON s.key = CASE (SELECT kind FROM stage LIMIT 1) WHEN 'pool' THEN d.trial >> 40
  WHEN 'declared' THEN g.bracket || '/' || g.stage ELSE d.budget END
WHERE d.what IN ('created', 'promoted', 'budget', 'queued', 'started');
-- When which trial was in which stage.
CREATE TEMP TABLE turn AS
SELECT trial, stage, at_s AS from_s,
  lead(at_s, 1, 1e300) OVER (PARTITION BY trial ORDER BY id) AS until_s
FROM (SELECT *, lag(stage) OVER (PARTITION BY trial ORDER BY id) AS before FROM step)
WHERE stage IS NOT before;
CREATE INDEX temp.turn_trial ON turn (trial);
CREATE INDEX temp.turn_stage ON turn (stage);
CREATE INDEX temp.step_stage ON step (stage);

-- ---- stays of gangs on GPUs, and for which stage they worked -----------------------------------

CREATE TEMP TABLE stay AS
SELECT gang, number, trial, gpus, packing, slots, running_s, over, text, from_s,
  max(from_s, until_s) AS until_s
FROM (SELECT s.gang, s.number, s.trial, max(1, min(1000000, s.gpus)) AS gpus,
    max(1, min(1024, s.packing)) AS packing,
    CASE WHEN NOT json_valid(s.slots) OR length(s.slots) > 19000 THEN '[]'
      WHEN json_type(s.slots) = 'array' THEN s.slots ELSE '[]' END AS slots,
    CASE WHEN s.number = 0 THEN g.running_s ELSE s.from_s END AS running_s,
    s.until_s IS NOT NULL AS over,
    CASE WHEN s.until_s = g.ended_s THEN substr(g.text, 1, 121) END AS text,
    max(0.0, min(now, s.from_s)) AS from_s, max(0.0, min(now, ifnull(s.until_s, now))) AS until_s
  FROM stays s JOIN gangs g ON g.id = s.gang, fact);
CREATE TEMP TABLE seat AS
SELECT s.gang, s.number, m.n AS node, max(0, min(m.gpus - 1, gpu)) AS gpu
FROM (SELECT gang, number,
    CASE e.type WHEN 'array' THEN json_extract(e.value, '$[0]') END AS node,
    CASE e.type WHEN 'array' THEN json_extract(e.value, '$[1]') END AS gpu
  FROM stay, json_each(stay.slots) e) s
JOIN machine m ON m.id = s.node;
CREATE INDEX temp.seat_gang ON seat (gang, number);
CREATE TEMP TABLE work AS
SELECT s.gang, s.number, s.gpus, s.packing, t.stage, max(s.from_s, ifnull(t.from_s, 0)) AS from_s,
  min(s.until_s, ifnull(t.until_s, 1e300)) AS until_s
FROM stay s LEFT JOIN turn t ON t.trial = s.trial AND t.until_s > s.from_s
  AND (t.from_s < s.until_s OR t.from_s <= s.from_s);
CREATE INDEX temp.work_stage ON work (stage);

-- The height of a GPU's row; 0: the nodes or the stays are too many to draw one by one.  `each`:
-- so many nodes share a lane then.
CREATE TEMP TABLE layout AS
SELECT CASE WHEN bars <= 6000 AND row * gpus + 11 * nodes <= 2400 THEN row ELSE 0 END AS row,
  max(1, (nodes + 109) / 110) AS each, end_s / 250 AS bin_s, gpus <= 64 AS each_gpu, bars
FROM (SELECT *, max(3.0, min(60.0, 9.0 * packing, 1100.0 / gpus)) AS row FROM (
  SELECT (SELECT count(*) FROM machine) AS nodes,
    max(1, (SELECT total(gpus) FROM machine)) AS gpus,
    (SELECT max(13 / 9.0, ifnull(max(packing), 1)) FROM stay) AS packing,
    (SELECT ifnull(sum(1 + gpus / 8), 0) FROM stay) AS bars)), fact;

-- @facts
SELECT now, end_s, row, each, bin_s, each_gpu, (SELECT count(*) FROM stay) AS stays,
  (SELECT kind FROM stage LIMIT 1) AS kind
FROM fact, layout;
-- @meta
SELECT key, substr(value, 1, 61) AS value FROM meta
WHERE key IN ('algorithm', 'allocator', 'placer', 'cloud', 'seed') AND value IS NOT NULL
ORDER BY instr('algorithm allocator placer cloud seed', key);
-- @nodes
SELECT * FROM machine ORDER BY n;
-- @plans
SELECT plan AS number, at_s, ends_s, ends_sd_s, ends_p95_s, cost_usd, cost_sd_usd, cost_p95_usd
FROM predictions ORDER BY plan;
-- @planned
SELECT plan, bracket, stage, trials, iterations, gpus, gpus_per_trial, nodes,
  substr(offer, 1, 61) AS offer, starts_s, ends_s, cost_usd
FROM plan WHERE plan IN (SELECT plan FROM predictions) ORDER BY plan, starts_s, bracket, stage;
-- @stages
SELECT s.n, s.bracket, s.number, substr(s.name, 1, 61) AS name,
  ifnull(s.begun_s, w.from_s) AS begun_s,
  CASE s.kind WHEN 'budget' THEN w.until_s ELSE s.ended_s END AS ended_s,
  (SELECT max(budget) FROM step WHERE stage = s.n) AS budget,
  (SELECT count(*) FROM turn WHERE stage = s.n) AS trials,
  (SELECT count(DISTINCT node) FROM work JOIN seat USING (gang, number) WHERE stage = s.n) AS nodes,
  w.busy_gpu_s, w.gpus_least, w.gpus_most, w.packing
FROM stage s LEFT JOIN (SELECT stage, min(from_s) AS from_s, max(until_s) AS until_s,
    total(max(0, until_s - from_s) * gpus / packing) AS busy_gpu_s, min(gpus) AS gpus_least,
    max(gpus) AS gpus_most, max(packing) AS packing
  FROM work GROUP BY stage) w ON w.stage = s.n
ORDER BY s.n;
-- @stays
SELECT s.gang, s.number, s.trial, s.gpus, s.packing, s.slots, s.running_s, s.over, s.text, w.stage,
  w.from_s, w.until_s
FROM stay s JOIN work w USING (gang, number), layout WHERE row > 0
ORDER BY s.from_s, s.gang, s.number, w.from_s;
-- @charges
SELECT node, at_s, usd FROM charges ORDER BY node, rowid;

-- ---- many nodes or stays: how busy each lane was, in 250 bins of time --------------------------

CREATE TEMP TABLE busy AS
WITH RECURSIVE cover (node, color, gpus, from_s, until_s, bin) AS (
  SELECT t.node, ifnull(abs(s.number) % 8, 0), 1.0 / w.packing, w.from_s, w.until_s,
    CAST(w.from_s / bin_s AS INTEGER)
  FROM work w JOIN seat t USING (gang, number) LEFT JOIN stage s ON s.n = w.stage, layout
  WHERE row = 0 AND w.until_s > w.from_s
  UNION ALL SELECT node, color, gpus, from_s, until_s, bin + 1 FROM cover, layout
  WHERE (bin + 1) * bin_s < until_s)
SELECT node / each AS lane, bin, color,
  sum(gpus * (min(until_s, (bin + 1) * bin_s) - max(from_s, bin * bin_s))) AS gpu_s
FROM cover, layout GROUP BY 1, 2, 3;
CREATE TEMP TABLE held AS
WITH RECURSIVE cover (lane, gpus, from_s, until_s, bin) AS (
  SELECT n / each, gpus, max(0.0, requested_s), min(end_s, ifnull(ended_s, now)),
    CAST(max(0.0, requested_s) / bin_s AS INTEGER)
  FROM machine, layout, fact WHERE row = 0 AND requested_s < min(end_s, ifnull(ended_s, now))
  UNION ALL SELECT lane, gpus, from_s, until_s, bin + 1 FROM cover, layout
  WHERE (bin + 1) * bin_s < until_s)
SELECT lane, bin, sum(gpus * (min(until_s, (bin + 1) * bin_s) - max(from_s, bin * bin_s))) AS gpu_s
FROM cover, layout GROUP BY 1, 2;
-- Runs of one shade; color NULL: idle, else that of most of the work, in four levels.
-- @grid
SELECT lane, min(bin) AS bin, count(*) AS bins, color, level
FROM (SELECT lane, bin, color, level,
    bin - row_number() OVER (PARTITION BY lane, color, level ORDER BY bin) AS run
  FROM (SELECT h.lane, h.bin, b.color,
      min(3, CAST(4 * b.gpu_s / max(b.gpu_s, h.gpu_s) AS INTEGER)) AS level
    FROM held h LEFT JOIN (SELECT lane, bin, color, max(gpu_s), sum(gpu_s) AS gpu_s FROM busy
      GROUP BY lane, bin) b USING (lane, bin)))
GROUP BY lane, color, level, run ORDER BY lane, bin;
-- @busy
SELECT bin, sum(gpu_s) / bin_s AS gpus FROM busy, layout GROUP BY bin;

-- ---- how much of its time each GPU was used (many: each node); shared time counts once ---------

-- @use
SELECT node, gpu, count(*) AS gangs, total(max(0, until_s - from_s) / packing) AS share_s,
  total(max(0, until_s - max(from_s, ifnull(before_s, 0)))) AS used_s
FROM (SELECT t.node, CASE WHEN each_gpu THEN t.gpu ELSE 0 END AS gpu, s.packing,
    max(s.from_s, ifnull(m.ready_s, 1e300)) AS from_s,
    min(s.until_s, ifnull(m.ended_s, now)) AS until_s,
    max(s.until_s) OVER (PARTITION BY t.node, t.gpu ORDER BY s.from_s, s.gang, s.number
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_s
  FROM stay s JOIN seat t USING (gang, number) JOIN machine m ON m.n = t.node, layout, fact)
GROUP BY node, gpu ORDER BY node, gpu;

-- ---- tables -----------------------------------------------------------------------------------

-- @resizes
SELECT at_s, trial, in_place, gpus_before, packing_before, gpus, packing, pause_s,
  iteration_before_s, iteration_s, iterations, gained_s, more_gpu_s, count(*) OVER () AS all_count,
  sum(in_place <> 0) OVER () AS all_in_place,
  total(pause_s) OVER () AS all_pause_s,
  total(gained_s) FILTER (WHERE wider > 0) OVER () AS all_sooner_s,
  -total(gained_s) FILTER (WHERE wider < 0) OVER () AS all_later_s,
  total(more_gpu_s) FILTER (WHERE more_gpu_s > 0) OVER () AS all_more_s,
  -total(more_gpu_s) FILTER (WHERE more_gpu_s < 0) OVER () AS all_less_s
FROM (SELECT *, gpus * packing_before - gpus_before * packing AS wider FROM resizes)
ORDER BY at_s, trial LIMIT 50;
-- Failed attempts by what they said, of how many trials; other ends of trials; nodes.
-- @trouble
SELECT * FROM (
  SELECT min(ended_s) AS first_s, max(ended_s) AS last_s, count(*) AS times,
    count(DISTINCT trial) AS trials, CASE WHEN failed THEN 'failed' ELSE 'lost' END AS kind,
    substr(text, 1, 300) AS what
  FROM gangs WHERE text IS NOT NULL AND text <> '' GROUP BY failed, text
  UNION ALL SELECT min(ended_s), max(ended_s), count(*), NULL, 'node', substr(why, 1, 300)
  FROM nodes WHERE state = 'ended' AND why NOT IN ('released', 'ended', '') GROUP BY why
  UNION ALL SELECT min(notice_s), max(notice_s), count(*), NULL, 'node', 'notice of its end'
  FROM nodes WHERE notice_s IS NOT NULL GROUP BY NULL)
ORDER BY kind <> 'failed', times DESC, first_s LIMIT 21;

-- ---- a pool: its first experiments and jobs; `who` is the job's trial, or the experiment << 40 --

CREATE TEMP TABLE member AS
SELECT *, count(*) OVER () AS of FROM (
  SELECT id << 40 AS who, id, name, 0 AS job, status, text, arrived_s, ended_s, gpu_s
  FROM experiments WHERE arrived_s IS NOT NULL
  UNION ALL SELECT id, id, name, 1, status, NULL, arrived_s, ended_s,
    (SELECT gpu_s FROM trials t WHERE t.id = jobs.id) FROM jobs WHERE arrived_s IS NOT NULL)
ORDER BY job, id LIMIT 200;
CREATE INDEX temp.member_who ON member (who);
-- @members
SELECT who, id, substr(name, 1, 61) AS name, job, status,
  substr(text, 1, 400) AS text, arrived_s, ended_s, gpu_s, of,
  why(who, arrived_s, ifnull(ended_s, now)) AS why
FROM member, fact ORDER BY job, id;
-- How its number of GPUs changed.
-- @shares
SELECT who, at_s, sum(gpus) AS gpus
FROM (SELECT trial, from_s AS at_s, 1.0 * gpus / packing AS gpus FROM stay
  UNION ALL SELECT trial, until_s, -1.0 * gpus / packing FROM stay WHERE over) s
JOIN member m ON m.who = CASE WHEN s.trial >> 40 > 0 THEN s.trial >> 40 << 40 ELSE s.trial END
GROUP BY who, at_s HAVING abs(sum(gpus)) > 1e-9 ORDER BY who, at_s;

-- ==== for the search, or each experiment of a pool: :only its number or -1, :sign 1 to minimize --

DROP TABLE IF EXISTS temp.ranked;
CREATE TEMP TABLE ranked AS
SELECT *, rank < 60 OR of <= 240 OR seen * want / count > (seen - 1) * want / count AS drawn
FROM (SELECT *, min(count, (179 + max(stages, 1)) / max(stages, 1)) AS want
  FROM (SELECT *, row_number() OVER (PARTITION BY stage, rank < 60 ORDER BY rank) AS seen,
      count(*) OVER (PARTITION BY stage, rank < 60) AS count,
      max(dense) OVER () AS stages
    FROM (SELECT *, CASE WHEN rank >= 60 THEN
          dense_rank() OVER (PARTITION BY rank < 60 ORDER BY stage) END AS dense
      FROM (SELECT t.id, t.state, t.iteration, t.metric, t.gpu_s, t.cost_usd, t.params, t.changed_s,
          u.stage,
          count(*) OVER () AS of, row_number() OVER (ORDER BY t.id = :best DESC, t.iteration DESC,
            t.metric IS NULL, :sign * t.metric, t.id) - 1 AS rank
        FROM trials t LEFT JOIN turn u ON u.trial = t.id AND u.until_s = 1e300
        WHERE :only < 0 OR t.id >> 40 = :only))));
-- @trials
SELECT rank, id, iteration, metric, stage, drawn, of FROM ranked WHERE drawn ORDER BY rank;
-- At most 320 points of each curve, among them the last.
-- @points
SELECT rank, iteration, CAST(printf('%.8g', metric) AS REAL) AS metric
FROM (SELECT t.rank, t.iteration AS last, r.iteration, r.metric,
    row_number() OVER (PARTITION BY r.trial ORDER BY r.iteration) - 1 AS n
  FROM ranked t JOIN reports r ON r.trial = t.id WHERE t.drawn AND r.metric IS NOT NULL
    AND abs(r.metric) < 1e308 * 1.79 AND r.iteration >= 0)
WHERE (n % (last / 160 + 1) = 0 OR iteration = last) AND n < 320 * (last / 160 + 1)
ORDER BY rank, iteration;

-- ---- parameters and trials: tables and plots ---------------------------------------------------

DROP TABLE IF EXISTS temp.parameter;
CREATE TEMP TABLE parameter AS
SELECT row_number() OVER (ORDER BY at) - 1 AS n, json_extract(param, '$.name') AS name, param
FROM (SELECT e.key AS at, e.value AS param FROM meta m,
    json_each(CASE WHEN json_valid(m.value) THEN m.value ELSE '[]' END) e
  WHERE m.key = CASE WHEN :only < 0 THEN 'space' ELSE 'space/' || CAST(:only AS INTEGER) END
    AND e.type = 'object' LIMIT 200);
-- @space
SELECT substr(name, 1, 121) AS name, json_extract(param, '$.type') AS type,
  json_extract(param, '$.scale') AS scale, json_extract(param, '$.low') AS low,
  json_extract(param, '$.high') AS high, json_extract(param, '$.values') AS "values"
FROM parameter ORDER BY n;
-- The names of notes: those that most trials have.
DROP TABLE IF EXISTS temp.note_key;
CREATE TEMP TABLE note_key AS
SELECT row_number() OVER (ORDER BY count(*) DESC, key) AS n, key FROM trial_notes
WHERE :only < 0 OR trial >> 40 = :only GROUP BY key ORDER BY n LIMIT 16;
-- @notes
SELECT substr(key, 1, 65) AS key FROM note_key ORDER BY n;
-- Of many trials a third of those shown are the best, the others a sample of all ranks.
-- @sample
SELECT rank, id, substr(state, 1, 17) AS state, iteration,
  CASE WHEN abs(metric) < 1e308 * 1.79 THEN CAST(printf('%.8g', metric) AS REAL) END AS metric,
  gpu_s, cost_usd, stage,
  ifnull((SELECT at_s FROM reports r WHERE r.trial = ranked.id AND r.iteration = ranked.iteration),
    changed_s) AS at_s, of,
  (SELECT json_group_array(v) FROM (SELECT CASE e.type WHEN 'true' THEN 'true'
      WHEN 'false' THEN 'false' WHEN 'real' THEN CAST(printf('%.6g', e.value) AS REAL)
      WHEN 'integer' THEN e.value ELSE substr(e.value, 1, 61) END AS v
    FROM parameter p LEFT JOIN
      json_each(CASE WHEN json_valid(params) THEN params ELSE '{}' END) e ON e.key = p.name
    ORDER BY p.n)) AS "values",
  (SELECT json_group_array(t.text) FROM (SELECT
      (SELECT substr(text, 1, 301) FROM trial_notes o WHERE o.trial = ranked.id AND o.key = k.key)
      AS text FROM note_key k ORDER BY k.n) t) AS notes
FROM ranked, (SELECT max(50, max(300, min(3000, 150000 / (count(*) + 6))) / CASE WHEN :only < 0
    THEN 1 ELSE (SELECT count(*) FROM experiments) END) AS most FROM parameter)
WHERE of <= most OR rank < most / 3 OR (rank - most / 3 + 1) * (most - most / 3) / (of - most / 3)
  > (rank - most / 3) * (most - most / 3) / (of - most / 3)
ORDER BY rank;
-- What was better than all before, in order of time.
-- @history
SELECT at_s, trial, iteration, metric FROM improvements
WHERE abs(metric) < 1e308 * 1.79 AND (:only < 0 OR trial >> 40 = :only)
ORDER BY at_s, :sign * metric DESC, trial, iteration;
