/* Registration of the entry points with R: src/r/base/entry-points.h lists them. */
#include <R_ext/Rdynload.h>

#include "r/base/r-api.h"
#include "r/share/share.h"
#include "r/base/turn.h"

#define PARAMETERS_0 void
#define PARAMETERS_1 SEXP a
#define PARAMETERS_2 PARAMETERS_1, SEXP b
#define PARAMETERS_3 PARAMETERS_2, SEXP c
#define PARAMETERS_4 PARAMETERS_3, SEXP d
#define PARAMETERS_5 PARAMETERS_4, SEXP e
#define PARAMETERS_6 PARAMETERS_5, SEXP f
#define PARAMETERS_7 PARAMETERS_6, SEXP g
#define PARAMETERS_8 PARAMETERS_7, SEXP h
#define PARAMETERS_9 PARAMETERS_8, SEXP i
#define PARAMETERS_10 PARAMETERS_9, SEXP j
#define VALUES_1 a
#define VALUES_2 a, b
#define VALUES_3 a, b, c
#define VALUES_4 a, b, c, d
#define VALUES_5 a, b, c, d, e
#define VALUES_6 a, b, c, d, e, f
#define VALUES_7 a, b, c, d, e, f, g

/* Entry points that use the session are called through a function of this file, which has the
 * turn. */
#define DEFINE_WITH_TURN(name, n, arguments)   \
  static SEXP name##_in_turn(PARAMETERS_##n) { \
    int mine = clu_turn_enter(CLU_FRAME);      \
    SEXP x = name(VALUES_##n);                 \
    clu_turn_leave(mine);                      \
    return x;                                  \
  }
/* The list may say a wrong number of the others, which nobody else would notice. */
#define CHECK_NUMBER(name, n, arguments)                                    \
  _Static_assert(_Generic(&name, SEXP(*)(PARAMETERS_##n) : 1, default : 0), \
                 #name " has another number of arguments");
CLU_ENTRY_POINTS(DEFINE_WITH_TURN, CHECK_NUMBER)

#define WITH_TURN(name, n, arguments) {#name, (DL_FUNC)&name##_in_turn, n},
#define AS_IT_IS(name, n, arguments) {#name, (DL_FUNC)&name, n},
static const R_CallMethodDef entries[] = {CLU_ENTRY_POINTS(WITH_TURN, AS_IT_IS){NULL, NULL, 0}};

void R_init_clutch(DllInfo *dll);
void R_unload_clutch(DllInfo *dll);

void R_init_clutch(DllInfo *dll) {
  R_registerRoutines(dll, NULL, entries, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  clu_shared_init(dll);
}

/* The code of the thread is about to go. */
void R_unload_clutch(DllInfo *dll) {
  (void)dll;
  clu_turn_end();
}
