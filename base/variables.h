/* variables.h - environment variables of a trial that are not the user's alone: what a trial does
 * not inherit, and what trial.env may say of them.
 */
#ifndef ESPL__VARIABLES_H
#define ESPL__VARIABLES_H

enum espl__variable {
	ESPL__VARIABLE_USER,     /* inherited, and trial.env may replace it */
	ESPL__VARIABLE_PROTOCOL, /* of the trial protocol: nobody else sets it */
	/* what torchrun sets: only where a trial can have several ranks, or asks for it */
	ESPL__VARIABLE_TORCHRUN,
	ESPL__VARIABLE_LAUNCHER /* of an outer launcher, in whose place we start trials */
};
/* Of a name, which "=value" may follow. */
enum espl__variable espl__variable_of(const char *text);
#endif
