/* interrupt.h - Ctrl-C and its kin, as the verbs that run something hear of them. */
#ifndef ESPL__INTERRUPT_H
#define ESPL__INTERRUPT_H

/* How often the user asked to stop: 1 cleanly, 2 at once.  Never more. */
extern volatile int espl__interrupts;
/* From here on SIGINT, SIGTERM and SIGHUP are counted and end nothing by themselves; what the
 * program's parent chose to ignore stays ignored. */
void espl__interrupt_catch(void);
#endif
