#include "r/base/private-text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "r/base/entry-points.h"

typedef struct private_text {
  size_t n;
  char bytes[];
} private_text;

static SEXP tag_private(void) { return Rf_install("clutch_private"); }

static void private_wipe(SEXP x) {
  private_text *t = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!t) return;
  clu_os_wipe(t->bytes, t->n);
  free(t);
}

/* For `n` bytes, which the caller fills; a 0 is behind them. */
static SEXP private_room(size_t n) {
  SEXP x = PROTECT(R_MakeExternalPtr(NULL, tag_private(), R_NilValue));
  private_text *t = malloc(sizeof *t + n + 1);
  if (!t) clu_raise("memory", "not enough memory");
  t->n = n;
  t->bytes[n] = 0;
  R_SetExternalPtrAddr(x, t);
  R_RegisterCFinalizerEx(x, private_wipe, TRUE);
  UNPROTECT(1);
  return x;
}

static char *bytes_of(SEXP x) { return ((private_text *)R_ExternalPtrAddr(x))->bytes; }

SEXP clu_private_new(const char *bytes, size_t n) {
  SEXP x = private_room(n);
  memcpy(bytes_of(x), bytes, n);
  return x;
}

int clu_is_private(SEXP x) {
  return TYPEOF(x) == EXTPTRSXP && R_ExternalPtrTag(x) == tag_private();
}

const char *clu_private_bytes(SEXP x, size_t *n) {
  const private_text *t = clu_is_private(x) ? R_ExternalPtrAddr(x) : NULL;
  if (!t) clu_raise("argument", "this text was overwritten");
  *n = t->n;
  return t->bytes;
}

int clu_private_value(SEXP x, const char *name, char *out, size_t room) {
  size_t n, k = strlen(name), put = 0;
  const char *at = clu_private_bytes(x, &n);
  while (at && (strncmp(at, name, k) != 0 || strncmp(at + k, " \"", 2) != 0)) {
    at = strchr(at, '\n');
    if (at) at++;
  }
  if (!at) return -1;
  for (at += k + 2; *at && *at != '"' && put + 1 < room; at++) {
    int is_end = at[0] == '\\' && at[1] == 'n';
    out[put++] = is_end ? '\n' : *at;
    at += is_end;
  }
  out[put] = 0;
  return *at == '"' ? (int)put : -1;
}

/* ---- from R ---- */

static size_t size_of_lines(SEXP lines) {
  size_t n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(lines); i++) n += strlen(CHAR(STRING_ELT(lines, i))) + 1;
  return n;
}

static char *put_lines(char *to, SEXP lines) {
  for (R_xlen_t i = 0; i < Rf_xlength(lines); i++) {
    size_t k = strlen(CHAR(STRING_ELT(lines, i)));
    memcpy(to, CHAR(STRING_ELT(lines, i)), k);
    to[k] = '\n';
    to += k + 1;
  }
  return to;
}

/* A new one: these lines, then what is in `text`, then those. */
SEXP ffi_private_lines(SEXP before, SEXP text, SEXP after) {
  size_t n;
  const char *bytes = clu_private_bytes(text, &n);
  SEXP x = PROTECT(private_room(size_of_lines(before) + n + size_of_lines(after)));
  char *to = put_lines(bytes_of(x), before);
  memcpy(to, bytes, n);
  put_lines(to + n, after);
  UNPROTECT(1);
  return x;
}

SEXP ffi_private_wipe(SEXP text) {
  if (clu_is_private(text)) private_wipe(text);
  return R_NilValue;
}

/* Into a new file, which has the rights that the umask leaves. FALSE: it cannot be written. */
SEXP ffi_private_write(SEXP text, SEXP path) {
  size_t n;
  const char *bytes = clu_private_bytes(text, &n);
  FILE *f = fopen(R_ExpandFileName(CHAR(STRING_ELT(path, 0))), "wb");
  int ok;
  if (!f) return Rf_ScalarLogical(FALSE);
  setvbuf(f, NULL, _IONBF, 0); /* no copy of it */
  ok = fwrite(bytes, 1, n, f) == n;
  ok = fclose(f) == 0 && ok;
  return Rf_ScalarLogical(ok);
}

/* Bytes that are overwritten before their memory is given back. */
typedef struct growing {
  char *bytes;
  size_t n, cap;
} growing;

typedef struct reading {
  FILE *file;
  growing line, kept; /* `kept`: lines that R does not get */
  SEXP names;
} reading;

static char buffer[BUFSIZ]; /* the standard input's, too, which may not be taken away from it */

static void growing_free(growing *g) {
  if (g->bytes) clu_os_wipe(g->bytes, g->cap);
  free(g->bytes);
}

/* Room for `n` more bytes. */
static int grow(growing *g, size_t n) {
  growing more = {NULL, g->n, 2 * g->cap + n};
  if (g->cap - g->n >= n) return 1;
  if (!(more.bytes = malloc(more.cap))) return 0;
  if (g->n) memcpy(more.bytes, g->bytes, g->n);
  more.bytes[more.n] = 0; /* that of a line, behind which nothing may come any more */
  growing_free(g);
  *g = more;
  return 1;
}

static int is_kept(const reading *r) {
  for (R_xlen_t i = 0; i < Rf_xlength(r->names); i++) {
    const char *name = CHAR(STRING_ELT(r->names, i));
    size_t k = strlen(name);
    if (strncmp(r->line.bytes, name, k) == 0 && r->line.bytes[k] == ' ') return 1;
  }
  return 0;
}

static void keep(reading *r) {
  size_t k = strlen(r->line.bytes);
  if (!grow(&r->kept, k + 1)) clu_raise("memory", "not enough memory");
  memcpy(r->kept.bytes + r->kept.n, r->line.bytes, k);
  r->kept.bytes[r->kept.n + k] = '\n';
  r->kept.n += k + 1;
}

/* The next line without its end; 0: there is none. */
static int next_line(reading *r) {
  growing *l = &r->line;
  l->n = 0;
  do {
    if (!grow(l, 1024)) clu_raise("memory", "not enough memory");
    if (!fgets(l->bytes + l->n, (int)(l->cap - l->n), r->file)) break;
    l->n += strlen(l->bytes + l->n);
  } while (l->n == 0 || l->bytes[l->n - 1] != '\n');
  if (l->n == 0) return 0;
  l->bytes[strcspn(l->bytes, "\r\n")] = 0;
  return 1;
}

static SEXP read_lines(void *data) {
  static const char *names[] = {"lines", "private", ""};
  reading *r = data;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names)), lines = PROTECT(Rf_cons(R_NilValue, R_NilValue));
  SEXP last = lines, all;
  R_xlen_t n = 0, i = 0;
  while (next_line(r)) {
    const char *line = r->line.bytes;
    if (is_kept(r)) {
      keep(r);
      continue;
    }
    SETCDR(last, Rf_cons(Rf_mkChar(line), R_NilValue));
    last = CDR(last);
    if (n++ == 0 && strncmp(line, "clutch host settings ", 21) != 0) break; /* no settings */
    if (strcmp(line, "end") == 0) break;
  }
  all = PROTECT(Rf_allocVector(STRSXP, n));
  for (SEXP x = CDR(lines); x != R_NilValue; x = CDR(x)) SET_STRING_ELT(all, i++, CAR(x));
  SET_VECTOR_ELT(out, 0, all);
  SET_VECTOR_ELT(out, 1, clu_private_new(r->kept.n ? r->kept.bytes : "", r->kept.n));
  UNPROTECT(3);
  return out;
}

static void end_reading(void *data, Rboolean jump) {
  reading *r = data;
  (void)jump;
  if (r->file != stdin) fclose(r->file);
  clu_os_wipe(buffer, sizeof buffer);
  growing_free(&r->line);
  growing_free(&r->kept);
  free(r);
}

/* Lines of a file, or of the standard input ("stdin"), as far as the line "end", or the first one
 * if that begins no settings: list(lines, private). `private` has those that begin with one of
 * `names`. */
SEXP ffi_private_read(SEXP path, SEXP names) {
  const char *from = CHAR(STRING_ELT(path, 0));
  reading *r = calloc(1, sizeof *r);
  SEXP token = PROTECT(R_MakeUnwindCont()), out;
  if (!r) clu_raise("memory", "not enough memory");
  r->names = names;
  r->file = strcmp(from, "stdin") == 0 ? stdin : fopen(R_ExpandFileName(from), "rb");
  if (!r->file) {
    free(r);
    clu_raise("protocol", "'%s' cannot be read", from);
  }
  setvbuf(r->file, buffer, _IOFBF, sizeof buffer);
  out = R_UnwindProtect(read_lines, r, end_reading, r, token);
  UNPROTECT(1);
  return out;
}
