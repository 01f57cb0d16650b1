/*
 * tcpfault_lane.h: the inside of the proxy, shared by its two halves: the
 * lanes, where rules fire (tcpfault_lane.c), and the connections with their
 * thread (tcpfault.c).
 */
#ifndef SUPPORT_TCPFAULT_LANE_H
#define SUPPORT_TCPFAULT_LANE_H

#include "support/framer.h"
#include "support/tcpfault.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    BUFFER = 64 * 1024,
    CONNECTIONS = 1024, /* known at a time; more wait in the backlog */
    FIN_MS = 200,       /* for the peer to answer our FIN with its own */
    RETRY_MS = 2,       /* connect to a Unix socket with a full backlog */
    DRAIN_MS = 500,     /* for our bytes to arrive before an RST */
};

typedef struct address {
    struct sockaddr_storage sa;
    socklen_t len;
} address;

typedef struct lane {
    int from, to;
    char *buf; /* start .. start + len */
    size_t start, len;
    uint64_t pos;   /* of buf[start] in the stream */
    size_t scanned; /* bytes from start that the framer has seen */
    framer frame;
    bool in_frame;
    uint64_t frame_no, frame_start, frame_end;
    bool eof;      /* from has sent its last byte */
    bool eof_sent; /* and to knows, or never will */
    bool blocked;  /* to takes no more at the moment */
    bool held, split, swallow, dropping;
    int split_ms;
    int64_t until_ms; /* wait; 0: no */
    char *inject;     /* goes out before anything else */
    size_t inject_len, inject_sent;
    uint64_t fired[TCPFAULT_RULES]; /* in which frame; 1 for offsets */
    uint64_t seen[TCPFAULT_RULES];  /* commands of the rule's name */
} lane;

typedef struct answer {
    struct answer *next;
    uint64_t after; /* replies of the server that come before it */
    size_t len;
    char bytes[];
} answer;

typedef struct conn {
    int no;
    int client, server; /* -1: closed */
    bool connecting;
    bool dead;            /* half open */
    uint32_t from;        /* the client's address, 0: a Unix socket */
    bool gone;            /* to be freed */
    int64_t retry_ms;     /* connect again then */
    int64_t fin_until_ms; /* cut: closed at the latest then */
    lane lane[2];
    answer *answers;
    uint64_t asked, replied; /* frames passed up, replies passed down */
} conn;

typedef struct rule {
    tcpfault_rule r; /* the pointers inside are ours */
    uint64_t fired;
} rule;

struct tcpfault {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    uint64_t turns; /* times poll() returned */
    int wake_fd;
    bool stop;
    int listen_fd; /* -1 while refusing */
    int guard_fd;  /* keeps the port while the listener is closed */
    int port;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    address target;
    tcpfault_door door;
    uint32_t barred; /* nothing passes for clients of this address */
    rule rules[TCPFAULT_RULES];
    int nrules;
    int first_rule; /* number of rules[0]: numbers are not used twice */
    conn *conns[CONNECTIONS];
    int nconns;
    tcpfault_counts counts;
    tcpfault_event *events;
    size_t nevents;
    bool again; /* there is more to do without waiting */
};

/* Pass on what has come and may go; read more. */
void tcpfault__pump(tcpfault *f, conn *c, int dir);
void tcpfault__fill(tcpfault *f, lane *l);

/* Ends of a connection, and the log. */
void tcpfault__note(tcpfault *f, const conn *c, int dir, const char *what,
                    int number);
void tcpfault__close_fd(int *fd);
void tcpfault__bury(tcpfault *f, conn *c);
void tcpfault__reset_fd(int *fd);
void tcpfault__reset_conn(tcpfault *f, conn *c);
void tcpfault__cut_conn(conn *c);

#endif
