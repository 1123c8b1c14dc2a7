/* Messages between the parts of a run (core/mesh/mesh.h), as R has them. A process is one part at a
 * time, so what it needs is in one static struct, and survives an R error. Ranks are counted from 1
 * in R.
 *
 * Files, each of which uses only those before it: mesh (the session's handle; joining, leaving,
 * waiting), hub (the session's of a run on several hosts), messages, reduce.
 */
#ifndef CLUTCH_R_MESH_H
#define CLUTCH_R_MESH_H

#include "core/mesh/mesh.h"
#include "r/base/r-api.h"

enum clu_waited { CLU_WAITED_TO_RECEIVE, CLU_WAITED_TO_SEND, CLU_WAITED_FOR_ALL, CLU_WAITED };

typedef struct clu_this_part {
  clu_mesh *mesh;              /* NULL: this process is no part of a run */
  int has_left;                /* it has ended, and others may need what it keeps */
  clu_blob *sending;           /* the message on its way */
  int is_half_done;            /* others have a part of what this one has done, and not the rest */
  clu_message *taken;          /* the message that was received last */
  uint64_t waited[CLU_WAITED]; /* ns so far, by what for */
} clu_this_part;
extern clu_this_part clu_part;

/* How a process has ended: a signal, or else an exit status; NA: not known. */
clu_exit clu_exit_of(SEXP signal, SEXP status);
/* The mesh of this process; an R error of class clutch_no_run where there is none. */
clu_mesh *clu_part_mesh(void);
/* Raises the R error of what one of the mesh's functions has returned. */
NORET void clu_part_stop(int rc, int who);
/* A rank, as R counts them, or with `any` NULL (-1). An R error where it is none. */
int clu_part_rank(SEXP x, int any);
/* Sleeps until the event count is another, and checks for interrupts. When one jumps this part
 * does not wait any more, and what it was at is half done if all do it together (`for_all`). An R
 * error after a verdict. */
void clu_part_sleep(enum clu_waited what, uint32_t events, uint64_t deadline, int for_all);
/* All ranks meet; an R error where they do not. Blocks. */
void clu_part_meet(const clu_meeting *why);

/* messages.c. An object as the body of a message, behind `head` bytes that are the caller's, for so
 * many processes: `*b`, of which the caller frees what was in it and what is. Jumps. */
void clu_message_serialize(clu_blob **b, size_t head, SEXP x, R_xlen_t receivers);
/* The object of a message that stays through a jump, and as long as the object may need it. */
SEXP clu_message_value(clu_message *x, size_t head);

#endif
