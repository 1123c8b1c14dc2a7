/* A channel (core/wire/channel.h) whose descriptor is watched by an event loop: the two things
 * that its owner does with it again and again. Nothing here blocks. */
#ifndef CLUTCH_CHANNEL_WATCH_H
#define CLUTCH_CHANNEL_WATCH_H

#include "core/loop/event-loop.h"
#include "core/wire/channel.h"

/* Writes what the system takes, and asks for writability only while some is left. An error is
 * not reported: it shows when the channel is read. A channel that is closed is fine. */
void clu_chan_watch_flush(clu_loop *l, clu_chan *c, clu_watch_id id);
/* Unwatches and closes the channel. One that is closed is fine. */
void clu_chan_watch_close(clu_loop *l, clu_chan *c, clu_watch_id *id);

#endif
