/*
 * failpoint.h: a test worker dies at a named step, by order.
 *
 *   LEAT_FAILPOINT="after_effect:kill@3" ./worker
 *
 *   effect(m);
 *   failpoint("after_effect");        here, at the third pass: kill -9
 *   settle(m);
 *
 * kill: SIGKILL; stop: SIGSTOP, goes on after SIGCONT; exit: _exit(99).  @N is
 * the N-th pass, 1 if left out.  Several, with commas between them, are fine.
 * For test programs: the library has none.
 *
 * Threads: shared; passes of all threads count together.
 */
#ifndef SUPPORT_FAILPOINT_H
#define SUPPORT_FAILPOINT_H

enum { FAILPOINT_EXIT = 99 };

void failpoint(const char *name);

#endif
