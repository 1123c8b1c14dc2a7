/* This finds the control groups that bound the memory of this process. */
#include "posix/groups.h"

#include "core/base/os.h"

#if defined(CLU_HAVE_PROC)

#include <stdio.h>
#include <string.h>

/* Tells whether `name` is in a list with commas. */
static int is_in(const char *list, const char *name) {
  size_t n = strlen(name);
  for (;; list++) {
    if (strncmp(list, name, n) == 0 && (list[n] == 0 || list[n] == ',')) return 1;
    if (!(list = strchr(list, ','))) return 0;
  }
}

/* Cuts a line of /proc/self/cgroup: its number, its controllers and the group's path. Version 2 has
 * none of these. The folder of the group, and where its top ends; version 0: not of memory. */
static int group_of(char *line, char *folder, size_t room, size_t *top) {
  static const char *const tops[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
  char *of = strchr(line, ':'), *path = of ? strchr(of + 1, ':') : NULL;
  int version;
  if (!path) return 0;
  *path++ = 0;
  path[strcspn(path, "\n")] = 0;
  version = of[1] ? 1 : 2;
  if (version == 1 && !is_in(of + 1, "memory")) return 0;
  *top = strlen(tops[version - 1]);
  snprintf(folder, room, "%s%s", tops[version - 1], strcmp(path, "/") == 0 ? "" : path);
  return version;
}

void clu_groups_visit(const char *root,
                      void (*visit)(void *arg, const char *root, int version, const char *folder),
                      void *arg) {
  char line[1000], folder[1100];
  FILE *f;
  snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  if (!(f = fopen(line, "re"))) return;
  while (fgets(line, sizeof line, f)) {
    size_t top, end;
    int version = group_of(line, folder, sizeof folder, &top);
    if (!version) continue;
    for (end = strlen(folder);; folder[end - 1] = 0) {
      visit(arg, root, version, folder);
      while (end > top && folder[end - 1] != '/') end--;
      if (end <= top) break;
    }
  }
  fclose(f);
}

#endif
