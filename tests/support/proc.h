/*
 * proc.h: a child program, with its pipes, that cannot outlive the test.
 *
 * The child is in a process group of its own and gets SIGKILL when the thread
 * that started it ends (PR_SET_PDEATHSIG): start it from a thread that lives as
 * long as it should.  A test program that wants workers starts itself,
 * "/proc/self/exe" and an argument that says so.
 *
 * Threads: a proc is confined.
 */
#ifndef SUPPORT_PROC_H
#define SUPPORT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct proc proc;

typedef struct proc_opts {
    const char *const *env; /* "NAME=value" set besides ours, NULL-terminated */
    bool with_stderr;       /* its stderr comes with its stdout; else ours    */
} proc_opts;

/* Start argv[0], looked for in PATH.  NULL after saying why on stderr; no such
 * program shows as exit status 127. */
proc *proc_start(const char *const argv[], const proc_opts *opts);

/* Kill the group if it still runs, reap, free.  NULL is fine. */
void proc_free(proc *p);

pid_t proc_pid(const proc *p);

/* To its stdin.  False if it does not take it. */
bool proc_write(proc *p, const char *text);
void proc_close_stdin(proc *p);

/* The next line of its stdout without the newline, cut to size.  False when
 * none came within ms, or none will. */
bool proc_line(proc *p, char *buf, size_t size, int64_t ms);

/* To the process, not the group; not sent when it has ended. */
void proc_signal(proc *p, int sig);

/* SIGSTOP, and wait until it stands.  False if it ended instead. */
bool proc_pause(proc *p, int64_t ms);

/* Wait for the end.  False if it did not end within ms.  *status, if given, is
 * waitpid's. */
bool proc_wait(proc *p, int64_t ms, int *status);

/* True if it stands still (SIGSTOP by itself or by others). */
bool proc_stopped(const proc *p);

#endif
