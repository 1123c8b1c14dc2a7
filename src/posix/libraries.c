/* Libraries that are loaded are asked one by one: what R loads for a package cannot be seen from
 * elsewhere (RTLD_LOCAL), and neither can what that needs. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include "core/base/os-libraries.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <link.h>
#endif

#include "posix/features.h"

typedef struct search {
  const char *a, *b;
  clu_function_pair *out;
  int n, most;
} search;

static clu_function function_in(void *library, const char *name) {
  void *found = dlsym(library, name);
  clu_function f;
  memcpy(&f, &found, sizeof f); /* C has no conversion for it */
  return f;
}

static void look_into(search *s, void *library) {
  clu_function_pair x = {function_in(library, s->a), function_in(library, s->b)};
  if (!x.a || !x.b || s->n == s->most) return;
  for (int k = 0; k < s->n; k++)
    if (s->out[k].a == x.a) return; /* it was found by another library that needs it */
  s->out[s->n++] = x;
}

#ifdef CLU_HAVE_PHDR
typedef struct paths {
  char **list;
  size_t n, cap;
} paths;

/* The loader is locked meanwhile: libraries are opened later. */
static int note_path(struct dl_phdr_info *info, size_t size, void *into) {
  paths *p = into;
  (void)size;
  if (!info->dlpi_name || !info->dlpi_name[0]) return 0;
  if (p->n == p->cap) {
    size_t cap = p->cap ? 2 * p->cap : 64;
    char **more = realloc(p->list, cap * sizeof *more);
    if (!more) return 1;
    p->list = more;
    p->cap = cap;
  }
  p->list[p->n] = strdup(info->dlpi_name);
  return p->list[p->n] ? (p->n++, 0) : 1;
}

static void look_everywhere(search *s) {
  paths p = {0};
  dl_iterate_phdr(note_path, &p);
  for (size_t k = 0; k < p.n; k++) {
    void *library = dlopen(p.list[k], RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
      look_into(s, library);
      dlclose(library);
    }
    free(p.list[k]);
  }
  free(p.list);
}
#else
static void look_everywhere(search *s) { (void)s; }
#endif

int clu_os_library_functions(const char *a, const char *b, clu_function_pair *out, int most) {
  search s = {a, b, out, 0, most};
  look_into(&s, RTLD_DEFAULT);
  look_everywhere(&s);
  return s.n;
}
