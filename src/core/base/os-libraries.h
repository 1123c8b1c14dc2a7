/* These are functions of libraries that this process has. A part of the port; see os.h. */
#ifndef CLUTCH_OS_LIBRARIES_H
#define CLUTCH_OS_LIBRARIES_H

typedef void (*clu_function)(void);
typedef struct clu_function_pair {
  clu_function a, b;
} clu_function_pair;

/* Pairs of functions with these names, each pair in one of the libraries of this process, wherever
 * that can be seen from: how many there are, `most` at most. Loads nothing. */
int clu_os_library_functions(const char *a, const char *b, clu_function_pair *out, int most);

#endif
