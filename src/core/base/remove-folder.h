/* Removes the folder of a process that has ended, which may have left any number of files: for a
 * thread that has other things to do. */
#ifndef CLUTCH_REMOVE_FOLDER_H
#define CLUTCH_REMOVE_FOLDER_H

/* `path` is gone when this returns. What was in it may be there for a while longer, under the name
 * `path`-gone in the same place: where there is much, it is removed in the background (os.h), also
 * when this process ends. Blocks for milliseconds; longer only if no process can be started. */
void clu_remove_folder(const char *path);

#endif
