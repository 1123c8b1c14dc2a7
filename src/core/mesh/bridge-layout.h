/* A bridge from within, for the files of it. */
#ifndef CLUTCH_BRIDGE_LAYOUT_H
#define CLUTCH_BRIDGE_LAYOUT_H

#include "core/mesh/bridge-message.h"
#include "core/mesh/bridge.h"
#include "core/mesh/mesh-layout.h"

/* A message for which there was no room, or whose segments could not be made, as too many were
 * there. */
typedef struct late {
  struct late *next;
  int to;
  char tag[CLU_TAG_MOST + 1];
  clu_blob *body; /* NULL: it is still to be read, from byte `at` of `text` on */
  clu_blob *text;
  size_t at;
  clu_sending way;
} late;

/* A rank elsewhere, and what is known of it. */
typedef struct stand_in {
  clu_mesh *m; /* NULL: it has sent nothing */
  late *first, **end;
  int state; /* enum clu_rank_state: becomes true here when all that it has sent is in the rings */
  clu_exit how;
} stand_in;

typedef struct rank_pair {
  int from, to;
} rank_pair;

struct clu_bridge {
  clu_mesh *all; /* has no rank */
  int count;
  clu_bridge_say *say;
  void *to;
  stand_in *there; /* by rank; of those elsewhere */
  int lead;        /* -1: no rank is elsewhere */
  int first;       /* the first rank elsewhere that has failed or died, as is known; -1: none */
  int *told;       /* by rank, of those of this host: the state that the hub knows */
  int *now;
  uint64_t *blocked; /* by rank of this host: the pass in which a ring to it was full */
  uint64_t pass, heard;
  uint32_t told_met;
  int told_verdict;
  int has_late, lacks; /* some are late; of some the segments could not be made */
  rank_pair
      *heavy; /* pairs of which much was sent, whose senders are to be told when it was taken */
  size_t nheavy, cap;
  uint64_t suspect, quiet, quiet_heard; /* of the looks for who waits */
};

/* bridge-send.c. Everybody gets the verdict that the run has ended. */
void bridge_fail(clu_bridge *b);
/* Tells the hub, and frees it. */
void bridge_say(clu_bridge *b, clu_bridge_text *t);
/* This process as that rank; NULL: no memory. */
clu_mesh *bridge_stand_in(clu_bridge *b, int rank);
/* Tells the hub what ranks of this host have sent to others. */
void bridge_take_messages(clu_bridge *b);
/* Tries again to send what has found no room. */
void bridge_send_late(clu_bridge *b);
/* Senders on other hosts are told what was taken of their messages. */
void bridge_say_taken(clu_bridge *b);
/* Messages of the hub's. CLU_OK, CLU_PROTO, CLU_NOMEM. */
int bridge_heard_message(clu_bridge *b, clu_bridge_reader *r, clu_blob *text);
int bridge_heard_taken(clu_bridge *b, clu_bridge_reader *r);
/* Frees what waits. */
void bridge_drop_late(stand_in *s);

#endif
