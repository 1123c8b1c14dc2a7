/* The insides of a fork server and its nodes: for fork-server.c, transport-fork.c,
 * transport-host.c, session.c and
 * tests only. */
#ifndef CLUTCH_FORK_PRIVATE_H
#define CLUTCH_FORK_PRIVATE_H

#include "core/node/fork-server.h"
#include "core/node/node-private.h"

/* The stack of a node on another host, as its fork server has told it, as if the node had told
 * that here. */
typedef struct clu_far_stack {
  clu_stack_word word;
  clu_stack stack;
  uint32_t question; /* the number there of the last question */
  uint32_t copy;     /* and of the last copy; 0: none */
  int asking;        /* so many were not answered yet */
  uint64_t looked;   /* when the server was asked last */
} clu_far_stack;

typedef struct clu_fork_node {
  clu_node node;
  clu_server *server;                /* holds a reference */
  struct clu_fork_node *prev, *next; /* of the same server */
  int slot;                          /* of the server's shared memory, -1: none */
  uint64_t limit;                    /* bytes that it may have; 0: no limit */
  clu_far_stack *far;                /* NULL: it was not asked */
} clu_fork_node;

enum clu_server_state { CLU_SERVER_STARTING, CLU_SERVER_READY, CLU_SERVER_ENDED };

struct clu_server {
  clu_session *session;
  clu_server *prev, *next;
  long refs;
  clu_fork_node *nodes; /* not freed yet */
  clu_chan chan;
  clu_watch_id watch;
  int state;
  int idle, asked;
  clu_pid pid;
  clu_exit how;
  int reaped;
  clu_blob *ready;     /* what it reported when it was ready */
  uint64_t applied;    /* number of the settings in force */
  uint64_t answered;   /* number of the settings last answered, refused ones too */
  clu_blob *refusal;   /* why they were refused */
  clu_shared *shared;  /* with it and its nodes; NULL: not known yet, or not to be had */
  int live;            /* nodes that are open */
  int adopted;         /* started by another session, and so no child of this process */
  int remote;          /* on another host: not a process of this one, and there is no `shared` */
  uint64_t link, host; /* then: the node that is the link process, and the host's number there */
  int cut;             /* its connection is */
  uint64_t *slots; /* ids of those whose process has, or may have, a slot of `shared`; 0: free */
  int nslots;
  int taken;              /* at least so many from the first on are taken */
  clu_fork_node *found;   /* the node of the last message; NULL: there is none any more */
  uint64_t asked_machine; /* when; 0: it was not */
  clu_server_machine_status machine;
};

/* A slot of its shared memory for a node; -1: there is none. It is free again when the server
 * has said that the process is no more: until then that may write to it. */
int clu_server_take_slot(clu_server *s, uint64_t id);
void clu_server_free_slot(clu_server *s, uint64_t id);

/* ---- transport-host.c ---- */

/* ---- transport-fork.c, for transports whose nodes a fork server makes ---- */

/* Does what clu_node_new_fork() does, for that transport. */
int clu_fork_node_new(clu_server *s, const clu_transport *transport, int kind, clu_node **out,
                      clu_err *e);
/* Functions of a clu_transport, by their names there. */
void clu_fork_node_stop(clu_node *nd, uint32_t grace_ms);
void clu_fork_node_closed(clu_node *nd);
int clu_fork_node_end_known(const clu_node *nd);
void clu_fork_node_free(clu_node *nd);
void clu_fork_node_interrupt(clu_node *nd, uint64_t seq);
void clu_fork_node_limit_memory(clu_node *nd, uint64_t bytes);
int clu_fork_node_deliver(clu_node *nd, clu_blob *body);
void clu_fork_node_describe(const clu_node *nd, clu_node_status *out);

#endif
