/* Frames: what travels between master, fork server and nodes.
 *
 * A message is a kind, a number `seq` and up to 2^63 bytes. It travels in frames of at most
 * CLU_FRAME_MAX bytes, each behind a header of 24 bytes, little-endian:
 *
 *   0  u8   CLU_MAGIC
 *   1  u8   kind
 *   2  u8   flags: CLU_ABORT ends a message that will not be completed
 *   3  u8   0
 *   4  u32  bytes in this frame
 *   8  u64  seq
 *   16 u64  bytes in the whole message, the same in each of its frames
 *
 * Messages do not interleave. A sender that gives up in the middle of a message finishes the frame
 * it is in and sends an empty one with CLU_ABORT: whoever reads is never out of step, whatever was
 * cut short and when.
 */
#ifndef CLUTCH_FRAME_H
#define CLUTCH_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define CLU_MAGIC 0xC7
#define CLU_HEADER 24
#define CLU_FRAME_MAX (1u << 20)
#define CLU_ABORT 1
#define CLU_LAST_GRACE 2000000000u /* ns that a node has to end by itself after its connection has */

enum clu_kind {
  /* master to node */
  CLU_K_CALL = 1, /* seq: the request; payload: function and arguments */
  CLU_K_DONE,     /* no more calls */
  /* node to master */
  CLU_K_HELLO,     /* ready; payload: pid as u64 */
  CLU_K_VALUE,     /* seq: the request; payload: 5 doubles of time, then the value */
  CLU_K_FAILED,    /* the same, the value is the error */
  CLU_K_CANCELLED, /* the request or task was given up because the master asked for that */
  /* master to fork server */
  CLU_K_SETUP,    /* payload: what to attach */
  CLU_K_SETTINGS, /* seq: number of the settings; payload: what the nodes that follow inherit */
  CLU_K_SPAWN,    /* seq: the node; payload: u8 1 = by exec, u32 slot in the shared memory; its end of the data socket is passed along */
  CLU_K_OUTPUT,   /* a descriptor for the nodes' output is passed along */
  CLU_K_ERRORS,   /* the same for their error output, where it differs */
  CLU_K_CANCEL,   /* seq: the node; payload: u64 request */
  CLU_K_STOP,     /* seq: the node; payload: u32 milliseconds of grace, then it is killed */
  CLU_K_QUIT,     /* end all */
  /* fork server to master */
  CLU_K_READY,    /* payload: what was attached, or the error; the shared memory's descriptor is passed along */
  CLU_K_APPLIED,  /* seq: number of the settings; payload: empty, or the error's text */
  CLU_K_SPAWNED,  /* seq: the node; payload: u64 pid */
  CLU_K_REFUSED,  /* seq: the node; payload: the error's text */
  CLU_K_EXITED,   /* seq: the node; payload: u32 by_signal, u32 code, u32 1 = it had more memory than its limit, u64 how much */
  CLU_K_SIGNALLED,/* seq: the node: the CANCEL was delivered */
  CLU_K_BYE,      /* idle for too long */
  /* tasks, see core/wire/task-message.h. Master to node */
  CLU_K_JOB,      /* seq: the job; payload: what its tasks have in common */
  CLU_K_TASKS,    /* seq: the first task, the others follow */
  CLU_K_JOB_END,  /* seq: the job, of which nothing more will come */
  /* node to master */
  CLU_K_RESULT,   /* seq: the task */
  CLU_K_RELAY,    /* seq: the task under way; payload: output or a condition of it */
  CLU_K_RESULTS_READY,     /* there are results in the ring */
  /* master to fork server */
  CLU_K_LIMIT,    /* seq: the node; payload: u64 bytes of memory, with more of which it is killed; 0: no limit */
  CLU_K_AFTER_LAST
};

typedef struct clu_header {
  uint8_t kind, flags;
  uint32_t len;
  uint64_t seq, total;
} clu_header;

void clu_header_put(unsigned char out[CLU_HEADER], const clu_header *h);
/* CLU_OK, or CLU_PROTO when it is no header of this protocol. */
int clu_header_get(const unsigned char in[CLU_HEADER], clu_header *h);

static inline void clu_put32(unsigned char *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static inline void clu_put64(unsigned char *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static inline uint32_t clu_get32(const unsigned char *p) {
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) v |= (uint32_t)p[i] << (8 * i);
  return v;
}

static inline uint64_t clu_get64(const unsigned char *p) {
  uint64_t v = 0;
  for (int i = 0; i < 8; i++) v |= (uint64_t)p[i] << (8 * i);
  return v;
}

#endif
