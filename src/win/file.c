/* Folders and files on Windows. */
#include "core/base/os-folders.h"
#include "core/base/os-lock.h"
#include "core/base/os-output.h"
#include "win/win.h"

#include <fcntl.h>
#include <io.h>
#include <sddl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

wchar_t *clu_win_wide_path(const char *path) {
  static const wchar_t prefix[] = L"\\\\?\\", share[] = L"\\\\?\\UNC";
  wchar_t *given = clu_win_wide(path), *out = NULL;
  DWORD n = given ? GetFullPathNameW(given, 0, NULL, NULL) : 0;
  /* with room for the longer prefix in front; makes backslashes of slashes, too, which the prefix
   * needs */
  if (n && (out = malloc((n + 8) * sizeof *out))) {
    wchar_t *full = out + 8;
    DWORD k = GetFullPathNameW(given, n, full, NULL);
    if (!k || k >= n) {
      free(out);
      out = NULL;
    } else if (wcsncmp(full, L"\\\\?\\", 4) == 0 || wcsncmp(full, L"\\\\.\\", 4) == 0) {
      memmove(out, full, (k + 1) * sizeof *out);
    } else if (full[0] == L'\\' && full[1] == L'\\') { /* \\server\share */
      memmove(out + 7, full + 1, k * sizeof *out);
      memcpy(out, share, 7 * sizeof *out);
    } else {
      memmove(out + 4, full, (k + 1) * sizeof *out);
      memcpy(out, prefix, 4 * sizeof *out);
    }
  }
  free(given);
  return out;
}

int clu_os_make_temp(const char *under, char *path, size_t cap, clu_err *e) {
  static const char letters[] =
      "abcdefghijklmnopqrstuvwxyz0123456789"; /* case does not count here */
  char text[CLU_WIN_TEXT];
  /* The system, administrators, and whoever owns a file within: not inherited from `under`, which
   * may be open to others. S-1-3-4 is "owner rights". */
  PSECURITY_DESCRIPTOR rights = NULL;
  SECURITY_ATTRIBUTES sa = {sizeof sa, NULL, FALSE};
  DWORD err = ERROR_ALREADY_EXISTS;
  if (!ConvertStringSecurityDescriptorToSecurityDescriptorW(
          L"D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;S-1-3-4)", SDDL_REVISION_1, &rights,
          NULL)) {
    err = GetLastError();
    return clu_fail(e, CLU_SYS, (int)err, "no temporary folder can be made in %s: %s", under,
                    clu_win_text((int)err, text));
  }
  sa.lpSecurityDescriptor = rights;
  for (int tries = 0; tries < 100 && err == ERROR_ALREADY_EXISTS; tries++) {
    unsigned char r[6];
    char name[7] = "";
    wchar_t *wide;
    int n;
    if (clu_os_random(r, sizeof r) != CLU_OK) {
      err = ERROR_GEN_FAILURE;
      break;
    }
    for (int i = 0; i < 6; i++) name[i] = letters[r[i] % (sizeof letters - 1)];
    n = snprintf(path, cap, "%s/Rtmp%s", under, name);
    if (n < 0 || (size_t)n >= cap) {
      LocalFree(rights);
      return clu_fail(e, CLU_SYS, ERROR_FILENAME_EXCED_RANGE,
                      "the path of the temporary folder is too long");
    }
    wide = clu_win_wide_path(path);
    err = !wide ? ERROR_NOT_ENOUGH_MEMORY : CreateDirectoryW(wide, &sa) ? 0 : GetLastError();
    free(wide);
  }
  LocalFree(rights);
  if (!err) return CLU_OK;
  return clu_fail(e, CLU_SYS, (int)err, "no temporary folder can be made in %s: %s", under,
                  clu_win_text((int)err, text));
}

static wchar_t *below(const wchar_t *folder, const wchar_t *name) {
  size_t a = wcslen(folder), b = wcslen(name);
  wchar_t *out = malloc((a + b + 2) * sizeof *out);
  if (!out) return NULL;
  memcpy(out, folder, a * sizeof *out);
  out[a] = L'\\';
  memcpy(out + a + 1, name, (b + 1) * sizeof *out);
  return out;
}

/* `few` (NULL: any number): gives up when so many have been looked at. */
static void remove_wide(const wchar_t *path, DWORD attributes, int *few) {
  if (few && (*few)-- <= 0) return;
  if (attributes & FILE_ATTRIBUTE_READONLY)
    SetFileAttributesW(path, attributes & ~(DWORD)FILE_ATTRIBUTE_READONLY);
  if (!(attributes & FILE_ATTRIBUTE_DIRECTORY)) {
    DeleteFileW(path);
    return;
  }
  /* a link or a junction goes itself, what it leads to stays */
  if (!(attributes & FILE_ATTRIBUTE_REPARSE_POINT)) {
    WIN32_FIND_DATAW found;
    wchar_t *all = below(path, L"*");
    HANDLE h = all ? FindFirstFileW(all, &found) : INVALID_HANDLE_VALUE;
    free(all);
    if (h != INVALID_HANDLE_VALUE) {
      do {
        wchar_t *one;
        if (wcscmp(found.cFileName, L".") == 0 || wcscmp(found.cFileName, L"..") == 0) continue;
        if (!(one = below(path, found.cFileName))) break;
        remove_wide(one, found.dwFileAttributes, few);
        free(one);
      } while (!(few && *few <= 0) && FindNextFileW(h, &found));
      FindClose(h);
    }
  }
  RemoveDirectoryW(path);
}

int clu_os_make_folder(const char *path, clu_err *e) {
  (void)path;
  return clu_fail(e, CLU_UNSUPPORTED, 0, "there are no forked nodes on Windows");
}

int clu_os_take_folder(const char *old, const char *path) {
  (void)old;
  (void)path;
  return CLU_UNSUPPORTED;
}

int clu_os_is_empty_folder(const char *path) {
  (void)path;
  return 0;
}

int clu_os_lock_file(const char *under, const char *name, int i, clu_fd *fd) {
  (void)under;
  (void)name;
  (void)i;
  (void)fd;
  return CLU_UNSUPPORTED;
}

int clu_os_mark_folder(const char *folder, clu_fd *fd) {
  (void)folder;
  (void)fd;
  return CLU_UNSUPPORTED;
}

int clu_os_claim_folder(const char *folder, clu_fd *fd) {
  (void)folder;
  (void)fd;
  return CLU_SYS;
}

int clu_os_remove_tree(const char *path) {
  wchar_t *wide = clu_win_wide_path(path);
  int left = 1;
  if (!wide) return -1;
  /* again after a while: a deleted file stays until whoever looks at it (a virus scanner) has
   * closed it */
  for (int tries = 0; tries < 5 && left; tries++) {
    DWORD attributes = GetFileAttributesW(wide);
    if (tries) Sleep(10u << tries);
    left = attributes != INVALID_FILE_ATTRIBUTES;
    if (left) remove_wide(wide, attributes, NULL);
    left = GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES;
  }
  free(wide);
  return left ? -1 : 0;
}

#define FEW 64 /* files, removed in some milliseconds */

int clu_os_remove_few(const char *path) {
  wchar_t *wide = clu_win_wide_path(path);
  DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
  int few = FEW, left = !wide;
  if (attributes != INVALID_FILE_ATTRIBUTES) {
    remove_wide(wide, attributes, &few);
    left = GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES;
  }
  free(wide);
  return left;
}

/* The code that the thread runs must stay loaded until it has ended, also when the package is
 * unloaded. */
static DWORD WINAPI remove_in_thread(void *path) {
  HMODULE here = NULL;
  GetModuleHandleExW(
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
      (LPCWSTR)(void *)&remove_in_thread, &here);
  clu_os_remove_tree(path);
  free(path);
  if (here) FreeLibraryAndExitThread(here, 0);
  return 0;
}

int clu_os_remove_in_background(const char *path) {
  HMODULE here;
  HANDLE h = NULL;
  char *copy = malloc(strlen(path) + 1);
  if (!copy) return CLU_SYS;
  strcpy(copy, path);
  /* counts as one more user of the library; the thread gives it back */
  if (GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, (LPCWSTR)(void *)&remove_in_thread,
                         &here)) {
    h = CreateThread(NULL, 0, remove_in_thread, copy, 0, NULL);
    if (!h) FreeLibrary(here);
  }
  if (!h) {
    free(copy);
    return CLU_SYS;
  }
  CloseHandle(h);
  return CLU_OK;
}

int clu_os_open_append(const char *path, clu_fd *fd, clu_err *e) {
  char text[CLU_WIN_TEXT];
  wchar_t *wide = clu_win_wide(strcmp(path, "/dev/null") == 0 ? "NUL" : path);
  /* FILE_APPEND_DATA without FILE_WRITE_DATA: each write goes to the end, whoever else writes.
   * Not by clu_win_wide_path(), which would make a file of "NUL" */
  HANDLE h = wide ? CreateFileW(wide, FILE_APPEND_DATA | SYNCHRONIZE,
                                FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL)
                  : INVALID_HANDLE_VALUE;
  int err = (int)GetLastError();
  free(wide);
  if (h == INVALID_HANDLE_VALUE)
    return clu_fail(e, CLU_SYS, err, "cannot open '%s' for output: %s", path,
                    clu_win_text(err, text));
  *fd = (clu_fd)h;
  return CLU_OK;
}

/* Both what the C library has as 1 or 2, and what Windows gives to programs started later. */
static int redirect(clu_fd to, int number, DWORD standard) {
  HANDLE copy;
  int f, failed;
  if (!DuplicateHandle(GetCurrentProcess(), (HANDLE)to, GetCurrentProcess(), &copy, 0, FALSE,
                       DUPLICATE_SAME_ACCESS))
    return 0;
  f = _open_osfhandle((intptr_t)copy, _O_APPEND);
  if (f < 0) {
    CloseHandle(copy);
    return 0;
  }
  failed = _dup2(f, number);
  _close(f);
  return !failed && SetStdHandle(standard, (HANDLE)_get_osfhandle(number));
}

int clu_os_redirect_output(clu_fd out, clu_fd err) {
  return redirect(out, 1, STD_OUTPUT_HANDLE) && redirect(err, 2, STD_ERROR_HANDLE) ? CLU_OK
                                                                                   : CLU_SYS;
}

int clu_os_output_append(const char *path, const void *p, size_t n, clu_err *e) {
  char text[CLU_WIN_TEXT];
  clu_fd fd;
  DWORD put = 0;
  int err, rc = clu_os_open_append(path, &fd, e);
  if (rc != CLU_OK) return rc;
  err = WriteFile((HANDLE)fd, p, (DWORD)n, &put, NULL) ? ERROR_DISK_FULL : (int)GetLastError();
  CloseHandle((HANDLE)fd);
  if (put == n) return CLU_OK;
  return clu_fail(e, CLU_SYS, err, "cannot write to '%s': %s", path, clu_win_text(err, text));
}
