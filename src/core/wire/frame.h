/* Frames: the format of all that travels between session, fork server and nodes.
 *
 * A message is a kind, a number `seq` and a body of up to 2^63 bytes. It travels in frames, each of
 * which has a header of 24 bytes, little-endian, and at most CLU_FRAME_MAX bytes of the body:
 *
 *   offset size
 *   0      u8   CLU_MAGIC
 *   1      u8   kind
 *   2      u8   flags: CLU_ABORT ends a message that will not be completed
 *   3      u8   descriptors that come with the message, 0 to CLU_MAX_FDS; 0 but in its first frame
 *   4      u32  bytes in this frame
 *   8      u64  seq
 *   16     u64  bytes in the whole body, the same in each of its frames
 *
 * Messages do not interleave: the frames of one follow each other. A sender that cancels a message
 * half-way completes the frame that it is writing, and sends an empty one with CLU_ABORT. So the
 * reader is in step, whatever was cut short and when.
 *
 * Numbers in bodies are little-endian. What is in a body is said at its kind, in enum clu_kind;
 * that of messages about tasks in core/wire/task-message.h. The handshake over TCP, before the
 * first frame, is core/wire/handshake.h.
 *
 * Functions here do not block and own nothing.
 */
#ifndef CLUTCH_FRAME_H
#define CLUTCH_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define CLU_MAGIC 0xC7
#define CLU_HEADER 24
#define CLU_FRAME_MAX (1u << 20)
#define CLU_ABORT 1
#define CLU_LAST_GRACE \
  2000000000u /* ns that a node has to end by itself after its connection has */

/* Kinds of messages. Behind each is its seq, and its body, where it has these. */
enum clu_kind {
  /* session to node */
  CLU_K_CALL = 1, /* seq: the request. u32 n; n > 0: n bytes of a function, then its arguments; 0:
                     list(function, arguments) */
  CLU_K_DONE,     /* no more requests: end */
  /* node to session */
  CLU_K_HELLO,     /* ready. u64 pid */
  CLU_K_VALUE,     /* seq: the request. 5 doubles of time, then the value */
  CLU_K_FAILED,    /* the same; the value is the error */
  CLU_K_CANCELLED, /* seq: the request or task that was cancelled, as the session wished. Of a task
                      also the R calls that it was in, as UTF-8, a line each, the innermost last */
  /* session to fork server */
  CLU_K_SETUP,    /* what to attach */
  CLU_K_SETTINGS, /* seq: number of the settings. What the nodes that follow inherit */
  CLU_K_SPAWN,  /* seq: the node. u8 enum clu_start_kind, u32 slot in the shared memory. Passes its
                   end of the data socket */
  CLU_K_OUTPUT, /* passes a descriptor for the nodes' output. With a text: that file there */
  CLU_K_ERRORS, /* the same for their error output, where it differs */
  CLU_K_CANCEL, /* seq: the node. u64 request; or nothing: only the answer is wanted */
  CLU_K_STOP,   /* seq: the node. u32 milliseconds of grace, after which it is killed */
  CLU_K_QUIT,   /* end all. u8 1: it may stay for another session (core/supervisor/stay.h) */
  /* fork server to session */
  CLU_K_READY,   /* what was attached, or the error. Passes the descriptor of the shared memory */
  CLU_K_APPLIED, /* seq: number of the settings. Empty, or the error's text */
  CLU_K_SPAWNED, /* seq: the node. u64 pid */
  CLU_K_REFUSED, /* seq: the node. The error's text */
  CLU_K_EXITED,  /* seq: the node. u32 by_signal, u32 code, u32 enum clu_end_of_memory or 0, u64 how
                    much it had, u64 the first task that it has not begun; then where its last copy
                    listens, if it has made one (core/supervisor/memory.c) */
  CLU_K_SIGNALLED, /* seq: the node. The CANCEL was delivered, or the node is no more */
  CLU_K_BYE,       /* idle for too long */
  /* session to node, about tasks */
  CLU_K_JOB,     /* seq: the job. What its tasks have in common */
  CLU_K_TASKS,   /* seq: the first task, the others follow */
  CLU_K_JOB_END, /* seq: the job, of which nothing more will come */
  /* node to session, about tasks */
  CLU_K_RESULT,        /* seq: the task */
  CLU_K_RELAY,         /* seq: the task under way. Output or a condition of it */
  CLU_K_RESULTS_READY, /* there are results in the ring */
  /* session to fork server */
  CLU_K_LIMIT, /* seq: the node. u64 bytes of memory, with more of which it is killed; 0: no limit
                */
  CLU_K_VIEW,  /* seq: number of the cluster. Passes its view (core/view/view.h), which has u64
                  bytes;  empty, and without a descriptor: nobody is to see it any more */
  /* session to link process (core/link/near.h) */
  CLU_K_LISTEN, /* the secret (32 bytes), u64 number of the cluster, u64 ns of heartbeat, u64 ns for
                   which a host may be cut off; where connections are encrypted also this side's
                   texts and the other's certificate (core/net/tls.h), each with a 0 behind it.
                   Passes the listener */
  CLU_K_HOST,   /* seq: the host. Passes the control channel of its fork server */
  /* CLU_K_VIEW, too: where it shows what it knows of the cluster's nodes on its hosts */
  /* both ways */
  CLU_K_HOST_STATE, /* seq: the host. Of the session: empty, the question; or a text: nothing is
                       left there, and why. The answer: u8 enum clu_relay_state, u64 bytes in, u64
                       out, u64 cuts, u64 since when it is so (clu_os_now()), then why the last cut
                       or the end was */
  CLU_K_MACHINE, /* between session and fork server. seq: number of the question, which is empty, or
                    u8 1: of the nodes, too. The answer: u64 load in thousandths, u64 bytes of
                    memory, u64 bytes of it that are free, then for each node u64 number, u64
                    milliseconds of processor time, u64 bytes of memory of its own; ~0: not known */
  /* proxy to session */
  CLU_K_RESULTS, /* of a node on another host, whose ring the proxy there reads: see
                    core/wire/task-message.h */
  /* session to node */
  CLU_K_TELL, /* as CLU_K_CALL, but nobody wants an answer. It waits until what the node does has
                 ended, and is not cancelled */
  /* session to fork server, and its answer */
  CLU_K_TAKE_BACK, /* seq: the node. u64 number after its last task: those that it has not begun are
                      not begun any more. To one of another host */
  CLU_K_TAKEN,     /* seq: the node. u64 the first of these */
  /* between session and fork server */
  CLU_K_STACK, /* seq: the node. u8 enum clu_stack_wish, see core/shm/stacks.h; u64 the request or
                  task that a copy is of. The answer, by the same seq: u32 number of the question,
                  if it was asked, else 0; u32 number of what it has told last, 0: nothing; u64
                  number of its task then; u64 how many ns ago; u32 number of the copy, if one was
                  asked for, else 0; u32 number of the last that was made; where it listens,
                  CLU_COPY_TEXT bytes; then the text */
  /* session to fork server */
  CLU_K_HOLD, /* seq: the node. u8 1: its process group is stopped; 0: it goes on */
  /* session to node */
  CLU_K_COLLECT, /* memory is short: it gives back what it does not need, while it is idle */
  CLU_K_GIVEN,   /* seq: the job, whose JOB message came before. A value of another task */
  /* both ways */
  CLU_K_MESH, /* between the hub of a run and a bridge: see core/mesh/bridge-message.h */
  /* session to fork server */
  CLU_K_DELIVER, /* seq: the node, for which it is. u32 n, n bytes of the path of a socket there,
                    then what is written to who listens at it */
  /* both ways */
  CLU_K_FORWARD, /* between a forwarder and the session, or another: core/forward/forwarder.h */
  CLU_K_AFTER_LAST
};

/* A question to a node that is busy: for what it has told last; its calls now; a copy of it, too.
 */
enum clu_stack_wish { CLU_STACK_LAST, CLU_STACK_CALLS, CLU_STACK_COPY };

/* How a fork server starts a node, and what the node does. */
enum clu_start_kind {
  CLU_START_FORK,         /* it serves requests */
  CLU_START_EXEC,         /* the same, as a new R */
  CLU_START_PROGRAM,      /* forked; it runs the program of the settings, and answers no request */
  CLU_START_KEPT,         /* the same, and the fork server starts it again when it has died */
  CLU_START_EXEC_PROGRAM, /* these two as a new R */
  CLU_START_EXEC_KEPT,
  CLU_START_LINK, /* forked; it is no node but the link process to other hosts */
  CLU_START_AFTER_LAST
};

/* Why a node was killed. */
enum clu_end_of_memory {
  CLU_OVER_LIMIT = 1, /* it was over its memory limit */
  CLU_MAY_BE_OOM      /* the system's out-of-memory killer was at work meanwhile */
};

typedef struct clu_header {
  uint8_t kind, flags, fds;
  uint32_t len;
  uint64_t seq, total;
} clu_header;

void clu_header_put(unsigned char out[CLU_HEADER], const clu_header *h);
/* CLU_OK, or CLU_PROTO when it is no header of this protocol. */
int clu_header_get(const unsigned char in[CLU_HEADER], clu_header *h);

/* Little-endian on every host. Written out, these are one instruction each; of loops compilers make
 * loops, and there are four of them in each result. */
static inline void clu_put32(unsigned char *p, uint32_t v) {
  p[0] = (unsigned char)v;
  p[1] = (unsigned char)(v >> 8);
  p[2] = (unsigned char)(v >> 16);
  p[3] = (unsigned char)(v >> 24);
}

static inline void clu_put64(unsigned char *p, uint64_t v) {
  clu_put32(p, (uint32_t)v);
  clu_put32(p + 4, (uint32_t)(v >> 32));
}

static inline uint32_t clu_get32(const unsigned char *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t clu_get64(const unsigned char *p) {
  return clu_get32(p) | (uint64_t)clu_get32(p + 4) << 32;
}

#endif
