/* Signals of the calling thread. A part of the port; see os.h. */
#ifndef CLUTCH_OS_SIGNALS_H
#define CLUTCH_OS_SIGNALS_H

/* From now on the calling thread takes no signals: they wait until clu_os_signals_release(), and
 * threads that it starts meanwhile never take any. A second hold, or release, does nothing.
 * Windows: nothing at all. */
void clu_os_signals_hold(void);
void clu_os_signals_release(void);

#endif
