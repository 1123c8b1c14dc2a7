/* Sampling profilers, such as R's Rprof(). A part of the port; see os.h. */
#ifndef CLUTCH_OS_SAMPLES_H
#define CLUTCH_OS_SAMPLES_H

/* Tells whether samples of this process are taken: its timer of CPU time for SIGPROF is set, or,
 * with `by_thread`, another thread sends that signal to the calling one. Where the signal was
 * handled before, a tenth of a second is waited to find that out, once. Windows: never. */
int clu_os_is_sampled(int by_thread);

#endif
