/* A bridge: the ranks of other hosts, in the mesh of this one.
 *
 * A run on several hosts has a bridge on each, and a hub (hub.h) in the session. The bridge makes
 * the mesh of its host and is there all ranks that are elsewhere. It takes what ranks of this host
 * send to those, and gives it to the hub, which hands it to the bridges of the hosts that it is
 * for: a message to many ranks of one host crosses once. What comes from there it sends here, in
 * the name of its sender. What finds no room in a ring waits in the bridge's memory, as does what
 * has segments where too many of those are open; the sender has at most CLU_PAIR_MOST bytes on
 * their way to each rank, since bridges tell what was taken.
 *
 * It tells the hub when a rank of this host has come, or has gone, behind all that it has sent;
 * when all of them are at a meeting; when all of them wait for ever, in which case it looks twice;
 * and of a verdict. The hub tells what others do.
 *
 * The process in which it runs calls clu_bridge_turn() when the word of clu_bridge_word() has
 * another value, and now and then. Nothing here blocks. One thread, but for that word.
 */
#ifndef CLUTCH_BRIDGE_H
#define CLUTCH_BRIDGE_H

#include "core/mesh/mesh.h"

typedef struct clu_bridge clu_bridge;

/* Where what it has to say goes; `body` stays the bridge's. */
typedef void clu_bridge_say(void *to, clu_blob *body);

/* `is_here`: by rank. `folder`: see clu_mesh_new(). CLU_OK or as that. */
int clu_bridge_new(int count, const char *is_here, const char *folder, clu_bridge_say *say,
                   void *to, clu_bridge **out, clu_err *e);
const char *clu_bridge_path(const clu_bridge *b);
void clu_bridge_free(clu_bridge *b); /* accepts NULL */

/* Takes a message of the hub's, of which it may keep a reference. CLU_OK; CLU_CANCELLED: the run is
 * over; CLU_PROTO: it cannot be; CLU_NOMEM. After these two everybody in the mesh gets the verdict
 * that the run has ended. */
int clu_bridge_heard(clu_bridge *b, clu_blob *body);
/* Does what there is to do. `is_idle`: nothing has happened for a while, so it looks whether all
 * ranks of this host wait. */
void clu_bridge_turn(clu_bridge *b, int is_idle);

/* The word that others change when there is something to do, and the one that has to be 1 while
 * somebody sleeps on it (clu_os_word_wait()). NULL: all ranks are on this host, and nobody tells
 * the bridge anything. */
_Atomic uint32_t *clu_bridge_word(clu_bridge *b, _Atomic uint32_t **asleep);

#endif
