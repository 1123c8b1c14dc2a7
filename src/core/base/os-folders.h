/* Folders: made, taken over, removed. A part of the port; see os.h. `e` may be NULL. */
#ifndef CLUTCH_OS_FOLDERS_H
#define CLUTCH_OS_FOLDERS_H

#include <stddef.h>

#include "core/base/err.h"

/* Makes a new folder "<under>/RtmpXXXXXX", readable by its owner only, and writes its path. Where
 * `under` itself is missing, that is made first (Windows: an error). */
int clu_os_make_temp(const char *under, char *path, size_t cap, clu_err *e);
/* This folder, and the one around it; one's own that is there will do. Windows: CLU_UNSUPPORTED. */
int clu_os_make_folder(const char *path, clu_err *e);
/* One's own folder `old` gets this path, and is readable by its owner only. CLU_SYS: it is not
 * there, or `path` is in use. Windows: CLU_UNSUPPORTED. */
int clu_os_take_folder(const char *old, const char *path);
/* Tells whether it is a folder with nothing in it. Windows: never. */
int clu_os_is_empty_folder(const char *path);
/* Removes `path` and all in it, and follows no link. 0: nothing is left. */
int clu_os_remove_tree(const char *path);
int clu_os_remove_few(const char *path); /* gives up before it takes long: then 1 */
/* Does the same, by a process that outlives this one and is not its child. CLU_SYS: it has not
 * begun. Windows: by a thread. */
int clu_os_remove_in_background(const char *path);

#endif
