/* Signals of the calling thread. A part of the port; see os.h. */
#ifndef CLUTCH_OS_SIGNALS_H
#define CLUTCH_OS_SIGNALS_H

#include "core/base/os.h"

/* From now on the calling thread takes no signals: they wait until clu_os_signals_release(), and
 * threads that it starts meanwhile never take any. A second hold, or release, does nothing.
 * Windows: nothing at all. */
void clu_os_signals_hold(void);
void clu_os_signals_release(void);

/* For who has called clu_os_on_int(). CLU_SIG_INT waits from now on, or no more. Meanwhile what
 * clu_os_interrupt() sends before it is heard, as where CLU_SIG_INT is ignored: R waits with a
 * handler of its own for the latter, which does not ask for whom it is. Windows: does nothing. */
void clu_os_int_defer(int waits);
/* Sends a process what is heard meanwhile: nothing happens to one that does not do that now. */
void clu_os_interrupt_deferred(clu_pid pid);

#endif
