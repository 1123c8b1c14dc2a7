/* Errors of the core: one set of codes for every system.
 *
 * Each function that can fail returns one of these codes (CLU_OK is 0). Where it takes a clu_err,
 * it fills it in at the place of the failure: the code, the system's own number (errno or
 * GetLastError, 0: none) and a sentence for people. The port translates system errors; the core
 * never prints, throws or exits. src/r/base/error.c makes R conditions of them.
 */
#ifndef CLUTCH_ERR_H
#define CLUTCH_ERR_H

#define CLU_CODES(X)                                                   \
  X(OK, "no error")                                                    \
  X(AGAIN, "nothing to be done now, wait for readiness")               \
  X(EOF, "the other side has closed")                                  \
  X(RESET, "the connection was reset")                                 \
  X(TIMEOUT, "the time is up")                                         \
  X(NOMEM, "not enough memory")                                        \
  X(LIMIT, "a limit on descriptors or processes is reached")           \
  X(PROTO, "what the other side sent is not a frame of this protocol") \
  X(DEAD, "the process is gone")                                       \
  X(CANCELLED, "the other side has cancelled it")                      \
  X(SYS, "the operating system refused")                               \
  X(UNSUPPORTED, "not available on this system")                       \
  X(REFUSED, "nobody listens there")                                   \
  X(UNREACHABLE, "there is no way to that address")                    \
  X(DNS, "this name has no address")                                   \
  X(IN_USE, "the address is in use")                                   \
  X(BUSY, "the listener's queue is full, try again")                   \
  X(CLOSED, "it is closed on this side")                               \
  X(BROKEN, "a part of what was sent is lost: it was taken by a call that was given up")

enum clu_code {
#define CLU_ENUM(name, text) CLU_##name,
  CLU_CODES(CLU_ENUM)
#undef CLU_ENUM
      CLU_N_CODES
};

typedef struct clu_err {
  int code;
  int sys;
  char text[256];
} clu_err;

/* Fills `e` (may be NULL) with a formatted sentence and returns `code`. */
int clu_fail(clu_err *e, int code, int sys, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* The general sentence of a code; a constant. */
const char *clu_code_text(int code);

#endif
