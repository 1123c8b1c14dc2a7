/* The port's part of files on a disk that are read and written at places. Each call blocks for the
 * disk. `e` may be NULL. */
#ifndef CLUTCH_OS_FILES_H
#define CLUTCH_OS_FILES_H

#include "core/base/os.h"

enum clu_file_mode {
  CLU_FILE_READ,  /* only to read */
  CLU_FILE_WRITE, /* to read and write; a new one is readable by its owner only */
  CLU_FILE_NEW    /* the same; CLU_IN_USE where there is one */
};
/* Opens a file; `path` in UTF-8; the descriptor is the caller's: clu_os_file_close(). CLU_OK,
 * CLU_IN_USE or CLU_SYS. */
int clu_os_file_open(const char *path, int mode, clu_fd *fd, clu_err *e);
void clu_os_file_close(clu_fd fd);
int clu_os_file_size(clu_fd fd, uint64_t *size); /* CLU_OK or CLU_SYS */
/* 1: it has no name any more, or another file has. Windows: 0, a file that is open keeps it. */
int clu_os_file_is_removed(clu_fd fd);
/* All `n` bytes at `at`. CLU_OK; CLU_EOF: there are fewer; CLU_SYS. */
int clu_os_file_read(clu_fd fd, uint64_t at, void *p, size_t n);
/* All `n` bytes, at `at`. CLU_OK, or CLU_SYS: some may be written. */
int clu_os_file_write(clu_fd fd, uint64_t at, const void *p, size_t n, clu_err *e);
int clu_os_file_cut(clu_fd fd, uint64_t size); /* CLU_OK or CLU_SYS */
/* Waits until all that was written is on the disk. CLU_OK or CLU_SYS. */
int clu_os_file_sync(clu_fd fd, clu_err *e);
/* The file at `path` was changed just now, as others see it. CLU_OK or CLU_SYS. */
int clu_os_file_touch(const char *path);
void clu_os_file_remove(const char *path);
/* One state of a file or folder is told from another by this: a file that was written again, or
 * replaced by another, differs in one of these. Times are ns since 1970. */
typedef struct clu_file_stamp {
  uint64_t device, number, size;
  int64_t modified, changed;
} clu_file_stamp;
/* CLU_OK; CLU_SYS: there is no such file, or it is out of reach. Windows: CLU_UNSUPPORTED. */
int clu_os_file_stamp(const char *path, clu_file_stamp *out);
/* Seconds since 1970, with a fraction. */
double clu_os_date(void);

#endif
