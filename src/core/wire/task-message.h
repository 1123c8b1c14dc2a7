/* Session and node talk about tasks: these are the contents of the messages
 * (core/wire/frame.h has their kinds). Numbers are little-endian (clu_put32(), clu_put64()).
 * Offsets are in bytes.
 *
 * JOB (session to node, once a job)
 *    0  u32      n, bytes of the function, where it travels apart from the rest; 0: it does not
 *    4  n bytes  the function, an R object: the same bytes are the same function
 * then an R list of thirteen: function (NULL where it travels apart), constant arguments, globals
 * (a named list), packages to attach, to load, order of the session's packages, packages that the
 * user wants, whether output and conditions are wanted, whether at once (NA: conditions at once,
 * and no output), options(warn =), whether each task has a fresh workspace, what travels packed
 * (node_unpack_job() in R/node-travel.R), where values of other tasks belong: a list of places in
 * the constant arguments, each one or two numbers. What needs no work is NULL.
 *
 * GIVEN (session to node), behind JOB: a value for the next of these places, as RESULT has it
 *
 * TASKS (session to node), a batch: CLU_TASKS_HEAD bytes
 *    0  u64      number of the job
 *    8  u32      number of tasks
 *   12  u32      which attempt this is, 1 for the first
 *   16  u32      flags: CLU_TASKS_*
 *   20  u32      memory that the node may have, in units of 2^20 bytes; 0: no limit
 *   24  6 x u32  the random stream of the first task; each other has the next stream
 * with CLU_TASKS_GRANT then
 *    0  u32      threads that the libraries of the tasks may have; 0: as many as without
 *    4  u32      n
 *    8  n bytes  what they were given, a line each: "memory=2000000000", "cores=2", "gpu=0,1"
 * then an R vector with their elements. The tasks are numbered at the node from the number of the
 * message on.
 *
 * JOB_END (session to node): nothing; the number of the message is that of the job. It is not sent
 * to the node that has answered the only task of a job (CLU_TASKS_ONLY).
 *
 * RESULT (node to session), of one task: CLU_RESULT_HEAD bytes
 *    0  u32      flags: CLU_RESULT_*
 *    4  u32      how long the node was at the answer before this task, in us, where that has gone
 *             by the socket, too: so much later it has begun
 *    8  u64      when it began, by the node's clock (clu_os_now(): that of the machine, in ns)
 *   16  u64      how long it took, in ns
 * then an R object: the value, or list(value, log).
 *
 * A small result goes by the ring (core/shm/result-ring.h) where there is one, as a record:
 * CLU_RING_RESULT_HEAD bytes 0  u32      flags: CLU_RESULT_* 4  u32      how long it took, in ns 8
 * u64      number of the task at the node 16  u64      when it began then the same object; with
 * CLU_RESULT_BARE as clu_plain_bare() writes it, or, with a log, clu_log_bare(). RESULTS_READY says
 * that records wait there; of quick tasks of a map it is not sent each time, and with less than
 * CLU_QUICK ns a task the session looks into the ring by itself.
 *
 * RESULTS, in place of a ring that is on another host
 *    0  u64      the clock there when they were sent, in ns
 * then for each u32 n and a record of n bytes.
 *
 * RELAY (node to session)
 *    0  u8       0: output follows, as it is; 1: a condition, as R object
 */
#ifndef CLUTCH_TASK_MESSAGE_H
#define CLUTCH_TASK_MESSAGE_H

#define CLU_TASKS_HEAD 48
#define CLU_RESULT_HEAD 24
#define CLU_RING_RESULT_HEAD 24
#define CLU_RESULTS_HEAD 8
#define CLU_QUICK 100000

enum {
  CLU_TASKS_SEEDED = 1,   /* with a random stream */
  CLU_TASKS_BARE = 2,     /* no elements follow: the job's function takes none */
  CLU_TASKS_NO_RING = 4,  /* nobody reads the node's ring: results come by the socket */
  CLU_TASKS_ONLY = 8,     /* the job has no other task: when this one is answered the job is over */
  CLU_TASKS_GRANT = 32,   /* it says what they were given of their host */
  CLU_TASKS_RECORDED = 16 /* results go into a journal: nothing of them is shared, a log comes as R
                             serializes it, and CLU_RESULT_DREW is told */
};
/* The parts of the list in a JOB message. */
enum {
  CLU_JOB_FUN,
  CLU_JOB_MORE,
  CLU_JOB_GLOBALS,
  CLU_JOB_ATTACH,
  CLU_JOB_LOAD,
  CLU_JOB_ORDER,
  CLU_JOB_PACKAGES,
  CLU_JOB_RELAY,
  CLU_JOB_LIVE,
  CLU_JOB_WARN,
  CLU_JOB_FRESH,
  CLU_JOB_TRAVEL,
  CLU_JOB_WISHES,
  CLU_JOB_GIVEN,
  CLU_JOB_PARTS
};
enum {
  CLU_RESULT_ERROR = 1, /* the value is what is known of an error */
  CLU_RESULT_LOG = 2,   /* what the task has printed and signalled comes with the value */
  CLU_RESULT_BARE = 4,  /* see above */
  CLU_RESULT_DREW = 8 /* the task has used random numbers; told where CLU_TASKS_RECORDED says so */
};

#endif
