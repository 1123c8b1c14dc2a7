/* Linux's control groups, as the files of the port find them. Only these include this file. */
#ifndef CLUTCH_POSIX_GROUPS_H
#define CLUTCH_POSIX_GROUPS_H

#include "posix/features.h"

#if defined(CLU_HAVE_PROC)

/* Calls `visit` for each folder of a group that bounds the memory of this process, its own first
 * and then those around it. `root`: the files of the system are below that folder. `folder` has no
 * `root`, and is valid during the call. The path is that of the machine, or of what a container
 * sees: a folder may not exist. `version`: of the control groups, 1 or 2. */
void clu_groups_visit(const char *root,
                      void (*visit)(void *arg, const char *root, int version, const char *folder),
                      void *arg);

#endif
#endif
