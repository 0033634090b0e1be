/* results_sql.h - the statements with which results.c writes; the tables are in schema.c. */
#ifndef ESPL__RESULTS_SQL_H
#define ESPL__RESULTS_SQL_H

#include "report/results_impl.h"

static const char *const statement_sql[STATEMENT_COUNT] = {
	[PUT_META] = "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
	[PUT_TRIAL] = "INSERT OR REPLACE INTO trials VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
		      "?10, ?11, ?12, ?12, ?13)",
	[SET_TRIAL] = "UPDATE trials SET tag = ?2, group_id = ?3, state = ?4, iteration = ?5, "
		      "budget = ?6, checkpoint = ?7, metric = ?8, gpu_s = ?9, cost_usd = ?10, "
		      "changed_s = ?11 WHERE id = ?1",
	[SET_USAGE] = "UPDATE trials SET gpu_s = ?2, cost_usd = ?3 WHERE id = ?1",
	[PUT_REPORT] = "INSERT OR REPLACE INTO reports VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
	[PUT_NAME] = "INSERT OR REPLACE INTO metric_names VALUES (?1, ?2)",
	[PUT_METRIC] = "INSERT OR REPLACE INTO metrics VALUES (?1, ?2, ?3, ?4)",
	[PUT_GANG] = "INSERT OR REPLACE INTO gangs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, NULL, "
		     "NULL, ?8)",
	/* The slots that the gang leaves, before its new ones are written. */
	[PUT_MOVE] = "INSERT INTO moves SELECT id, (SELECT count(*) + 1 FROM moves WHERE gang = "
		     "?1), ?2, ?3, gpus, packing, slots FROM gangs WHERE id = ?1",
	[MOVE_GANG] = "UPDATE gangs SET gpus = ?2, packing = ?3, slots = ?4 WHERE id = ?1",
	[SET_GANG] = "UPDATE gangs SET state = ?2, running_s = coalesce(?3, running_s), ended_s = "
		     "?4, text = ?5 WHERE id = ?1",
	[PUT_NODE] =
	    "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
	    "?13, ?14, ?15) ON CONFLICT (id) DO UPDATE SET state = ?5, gpus = ?4, booting_s = "
	    "coalesce(booting_s, ?7), ready_s = coalesce(ready_s, ?8), notice_s = "
	    "coalesce(notice_s, ?9), ended_s = ?10, billed_from_s = ?11, price_hour = "
	    "?12, charged_usd = ?13, why = coalesce(?14, why), host = ?15",
	[PUT_CHARGE] = "INSERT INTO charges VALUES (?1, ?2, ?3)",
	[PUT_GROUP] = "INSERT OR REPLACE INTO groups VALUES (?1, ?2, ?3, ?4, NULL)",
	[END_GROUP] = "UPDATE groups SET ended_s = ?2 WHERE id = ?1",
	[PUT_DECISION] = "INSERT INTO decisions VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6)",
	[PUT_NOTE] = "INSERT INTO notes VALUES (NULL, ?1, ?2, ?3, ?4, ?5)",
	[PUT_PREDICTION] =
	    "INSERT INTO predictions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
	/* Stages that are over keep their rows of the plan before. */
	[PUT_PLAN] =
	    "INSERT INTO plan SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13"
	    " WHERE NOT EXISTS (SELECT 1 FROM groups WHERE bracket = ?2 AND stage = ?3 AND"
	    " ended_s <= (SELECT at_s FROM predictions WHERE plan = ?1))",
	[PUT_EXPERIMENT] = "INSERT OR REPLACE INTO experiments VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
			   "?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
	[PUT_JOB] = "INSERT OR REPLACE INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, "
		    "?10, ?11)",
	[SET_JOB] = "UPDATE jobs SET started_s = coalesce(started_s, ?2), ended_s = ?3, status = "
		    "?4 WHERE id = ?1",
	[BEGIN] = "BEGIN",
	[COMMIT] = "COMMIT"
};
#endif
