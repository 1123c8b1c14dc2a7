/* What master and node say to each other about tasks.
 *
 * JOB      R's list of what its tasks have in common, see node_job() in R/node-tasks.R
 * TASKS    CLU_TASKS_HEAD bytes:
 *            0  u64 job
 *            8  u32 number of tasks
 *            12 u32 attempt
 *            16 u32 flags: 1 with seed, 2 no elements follow (the job's function takes none), 4 the master has no
 *                   such memory as the node has: results come by the socket
 *            20 u32 memory that the node may have, in units of 2^20 bytes; 0: no limit
 *            24 6 x u32 the random stream of the first task; each other has the next stream
 *          then an R vector with their elements
 * RESULT   CLU_RESULT_HEAD bytes:
 *            0  u32 flags: 1 an error, 2 with log
 *            4  u32 0
 *            8  u64 when it began, by the node's clock (CLU_CLOCK: that of the machine, in ns)
 *            16 u64 how long it took, in ns
 *          then the value, or list(value, log). Or else, in the ring (core/shm/result-ring.h) as a record of CLU_RING_RESULT_HEAD bytes:
 *            0  u32 flags: as above; 4 the value is as clu_plain_bare() writes it
 *            4  u32 how long it took, in ns
 *            8  u64 seq
 *            16 u64 when it began
 *          then the same
 * RELAY    u8 0: output, as it is; 1: a condition, as R object
 */
#ifndef CLUTCH_TASK_MESSAGE_H
#define CLUTCH_TASK_MESSAGE_H

#define CLU_TASKS_HEAD 48
#define CLU_RESULT_HEAD 24
#define CLU_RING_RESULT_HEAD 24
#define CLU_QUICK 20000 /* ns: of results of tasks that take less the node does not tell each time */
enum { CLU_TASKS_SEEDED = 1, CLU_TASKS_BARE = 2, CLU_TASKS_NO_RING = 4 };
enum { CLU_RESULT_ERROR = 1, CLU_RESULT_LOG = 2, CLU_RESULT_BARE = 4 };

#endif
