/* This file makes what a program is started with on Windows: its command line, and its
 * environment. */
#include "win/win.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"

/* A growing text in UTF-16 */
typedef struct wide {
  wchar_t *at;
  size_t n, cap;
  int failed;
} wide;

static void add(wide *t, const wchar_t *what, size_t n) {
  wchar_t *more = clu_grow(t->at, &t->cap, t->n + n, sizeof *more);
  if (!more) {
    t->failed = 1;
    return;
  }
  t->at = more;
  memcpy(t->at + t->n, what, n * sizeof *what);
  t->n += n;
}

/* The text, or NULL where memory was lacking. */
static wchar_t *finished(wide *t) {
  if (!t->failed) return t->at;
  free(t->at);
  return NULL;
}

/* One argument so that the C library's start-up code of the other program makes the same of it:
 * within quotes, backslashes count as such only in front of a quote. */
static void add_argument(wide *t, const char *arg) {
  wchar_t *w = clu_win_wide(arg);
  size_t slashes = 0;
  if (!w) {
    t->failed = 1;
    return;
  }
  if (t->n) add(t, L" ", 1);
  if (w[0] && !wcspbrk(w, L" \t\n\v\"")) {
    add(t, w, wcslen(w));
  } else {
    add(t, L"\"", 1);
    for (const wchar_t *p = w; *p; p++) {
      if (*p == L'\\') {
        slashes++;
      } else {
        if (*p == L'"')
          for (slashes++; slashes; slashes--) add(t, L"\\", 1);
        slashes = 0;
      }
      add(t, p, 1);
    }
    for (; slashes; slashes--) add(t, L"\\", 1);
    add(t, L"\"", 1);
  }
  free(w);
}

wchar_t *clu_win_command_line(char *const *argv) {
  wide t = {NULL, 0, 0, 0};
  for (int i = 0; argv[i]; i++) add_argument(&t, argv[i]);
  add(&t, L"", 1);
  return finished(&t);
}

static int is_variable(const wchar_t *entry, const wchar_t *name) {
  size_t n = wcslen(name);
  return _wcsnicmp(entry, name, n) == 0 && entry[n] == L'=';
}

wchar_t *clu_win_environment(char *const *envp, const wchar_t *name, uint64_t value) {
  wchar_t number[32], root[MAX_PATH + 16];
  DWORD k;
  wide t = {NULL, 0, 0, 0};
  int has_root = 0;
  if (envp) {
    for (int i = 0; envp[i]; i++) {
      wchar_t *w = clu_win_wide(envp[i]);
      if (!w) {
        t.failed = 1;
        break;
      }
      has_root |= is_variable(w, L"SystemRoot");
      if (!is_variable(w, name)) add(&t, w, wcslen(w) + 1);
      free(w);
    }
  } else {
    wchar_t *all = GetEnvironmentStringsW();
    for (wchar_t *p = all; p && *p; p += wcslen(p) + 1)
      if (!is_variable(p, name)) add(&t, p, wcslen(p) + 1);
    if (all) FreeEnvironmentStringsW(all);
    has_root = 1;
  }
  if (!has_root) { /* without it Winsock does not start */
    wcscpy(root, L"SystemRoot=");
    k = GetEnvironmentVariableW(L"SystemRoot", root + 11, MAX_PATH);
    if (k > 0 && k < MAX_PATH) add(&t, root, wcslen(root) + 1);
  }
  if (value) {
    add(&t, name, wcslen(name));
    _snwprintf(number, 32, L"=%I64u", (unsigned __int64)value);
    add(&t, number, wcslen(number) + 1);
  }
  if (!t.n) add(&t, L"", 1); /* none at all: two zeros */
  add(&t, L"", 1);
  return finished(&t);
}
