/* The part of the list of entry points (entry-points.h) that is about actors. */
#ifndef CLUTCH_ENTRY_POINTS_ACTOR_H
#define CLUTCH_ENTRY_POINTS_ACTOR_H

/* clang-format off */
#define CLU_ENTRY_POINTS_OF_ACTORS(IN_TURN, PLAIN)                                               \
  /* r/actor/actor.c */                                                                          \
  PLAIN(ffi_actor_made, 1, (SEXP some))                                                          \
  PLAIN(ffi_actor_new, 2, (SEXP folder, SEXP may_restart))                                       \
  PLAIN(ffi_actor_forget, 1, (SEXP name))                                                        \
  PLAIN(ffi_actor_set, 3, (SEXP x, SEXP state, SEXP why))                                        \
  PLAIN(ffi_actor_is_here, 1, (SEXP x))                                                          \
  PLAIN(ffi_actor_info, 1, (SEXP x))                                                             \
  /* r/actor/serve.c */                                                                          \
  PLAIN(ffi_actor_begin, 2, (SEXP x, SEXP folder))                                               \
  PLAIN(ffi_actor_end, 1, (SEXP state))                                                          \
  PLAIN(ffi_actor_next, 1, (SEXP waits))                                                         \
  PLAIN(ffi_actor_message, 0, (void))                                                            \
  PLAIN(ffi_actor_begin_call, 1, (SEXP method))                                                  \
  PLAIN(ffi_actor_end_call, 0, (void))                                                           \
  PLAIN(ffi_actor_answer, 1, (SEXP value))                                                       \
  PLAIN(ffi_actor_served, 0, (void))                                                             \
  PLAIN(ffi_actor_waits, 1, (SEXP name))                                                         \
  /* r/actor/settled.c */                                                                        \
  PLAIN(ffi_actor_settle, 3, (SEXP x, SEXP what, SEXP folder))                                   \
  PLAIN(ffi_actor_turn, 1, (SEXP name))                                                          \
  PLAIN(ffi_actor_turn_end, 0, (void))                                                           \
  PLAIN(ffi_actor_unsettle, 1, (SEXP name))                                                      \
  /* r/actor/call.c */                                                                           \
  PLAIN(ffi_actor_ask, 3, (SEXP actor, SEXP message, SEXP kind))                                 \
  PLAIN(ffi_actor_await, 2, (SEXP x, SEXP seconds))                                              \
  PLAIN(ffi_actor_drop, 1, (SEXP x))                                                             \
  /* r/node/apart.c */                                                                           \
  PLAIN(ffi_apart_begin, 2, (SEXP seed, SEXP warn))                                              \
  PLAIN(ffi_apart_end, 0, (void))
/* clang-format on */

#endif
