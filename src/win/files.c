/* Files on a disk, on Windows. */
#include "core/base/os-files.h"
#include "win/win.h"

#include <stdlib.h>

/* One call is asked for this much at the most. */
#define MOST_AT_ONCE ((size_t)1 << 30)

static int failed(clu_err *e, const char *what) {
  char text[CLU_WIN_TEXT];
  int err = (int)GetLastError();
  return clu_fail(e, CLU_SYS, err, "%s: %s", what, clu_win_text(err, text));
}

static HANDLE handle(clu_fd fd) { return (HANDLE)(intptr_t)fd; }

int clu_os_file_open(const char *path, int mode, clu_fd *fd, clu_err *e) {
  DWORD access = mode == CLU_FILE_READ ? GENERIC_READ : GENERIC_READ | GENERIC_WRITE;
  DWORD how = mode == CLU_FILE_READ  ? OPEN_EXISTING
              : mode == CLU_FILE_NEW ? CREATE_NEW
                                     : OPEN_ALWAYS;
  wchar_t *wide = clu_win_wide_path(path);
  HANDLE h = INVALID_HANDLE_VALUE;
  if (wide)
    h = CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, how,
                    FILE_ATTRIBUTE_NORMAL, NULL);
  free(wide);
  if (h == INVALID_HANDLE_VALUE && GetLastError() == ERROR_FILE_EXISTS)
    return clu_fail(e, CLU_IN_USE, ERROR_FILE_EXISTS, "it is there already");
  if (h == INVALID_HANDLE_VALUE) return failed(e, "it cannot be opened");
  *fd = (clu_fd)(intptr_t)h;
  return CLU_OK;
}

void clu_os_file_close(clu_fd fd) {
  if (fd != CLU_NO_FD) CloseHandle(handle(fd));
}

int clu_os_file_size(clu_fd fd, uint64_t *size) {
  LARGE_INTEGER n;
  if (!GetFileSizeEx(handle(fd), &n)) return CLU_SYS;
  *size = (uint64_t)n.QuadPart;
  return CLU_OK;
}

static OVERLAPPED place(uint64_t at) {
  OVERLAPPED o = {0};
  o.Offset = (DWORD)at;
  o.OffsetHigh = (DWORD)(at >> 32);
  return o;
}

int clu_os_file_read(clu_fd fd, uint64_t at, void *p, size_t n) {
  unsigned char *to = p;
  while (n > 0) {
    OVERLAPPED o = place(at);
    DWORD k = 0;
    if (!ReadFile(handle(fd), to, (DWORD)(n < MOST_AT_ONCE ? n : MOST_AT_ONCE), &k, &o))
      return GetLastError() == ERROR_HANDLE_EOF ? CLU_EOF : CLU_SYS;
    if (k == 0) return CLU_EOF;
    to += k;
    at += k;
    n -= k;
  }
  return CLU_OK;
}

int clu_os_file_write(clu_fd fd, uint64_t at, const void *p, size_t n, clu_err *e) {
  const unsigned char *from = p;
  while (n > 0) {
    OVERLAPPED o = place(at);
    DWORD k = 0;
    if (!WriteFile(handle(fd), from, (DWORD)(n < MOST_AT_ONCE ? n : MOST_AT_ONCE), &k, &o))
      return failed(e, "it cannot be written to");
    from += k;
    at += k;
    n -= k;
  }
  return CLU_OK;
}

int clu_os_file_cut(clu_fd fd, uint64_t size) {
  FILE_END_OF_FILE_INFO end;
  end.EndOfFile.QuadPart = (LONGLONG)size;
  return SetFileInformationByHandle(handle(fd), FileEndOfFileInfo, &end, sizeof end) ? CLU_OK
                                                                                     : CLU_SYS;
}

int clu_os_file_sync(clu_fd fd, clu_err *e) {
  return FlushFileBuffers(handle(fd)) ? CLU_OK
                                      : failed(e, "it cannot be synchronized with the disk");
}

int clu_os_file_touch(const char *path) {
  wchar_t *wide = clu_win_wide_path(path);
  HANDLE h = INVALID_HANDLE_VALUE;
  FILETIME now;
  BOOL ok = FALSE;
  if (wide)
    h = CreateFileW(wide, FILE_WRITE_ATTRIBUTES,
                    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                    FILE_ATTRIBUTE_NORMAL, NULL);
  free(wide);
  if (h == INVALID_HANDLE_VALUE) return CLU_SYS;
  GetSystemTimeAsFileTime(&now);
  ok = SetFileTime(h, NULL, NULL, &now);
  CloseHandle(h);
  return ok ? CLU_OK : CLU_SYS;
}

void clu_os_file_remove(const char *path) {
  wchar_t *wide = clu_win_wide_path(path);
  if (wide) DeleteFileW(wide);
  free(wide);
}

int clu_os_file_is_removed(clu_fd fd) {
  (void)fd;
  return 0;
}

int clu_os_file_stamp(const char *path, clu_file_stamp *out) {
  (void)path;
  (void)out;
  return CLU_UNSUPPORTED;
}

double clu_os_date(void) {
  FILETIME t;
  GetSystemTimeAsFileTime(&t); /* tenths of microseconds since 1601 */
  return 1e-7 * (double)((uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime) - 11644473600.0;
}
