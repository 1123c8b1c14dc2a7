#include "core/base/err.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const texts[] = {
#define CLU_TEXT(name, text) text,
    CLU_CODES(CLU_TEXT)
#undef CLU_TEXT
};

int clu_fail(clu_err *e, int code, int sys, const char *fmt, ...) {
  if (e) {
    va_list ap;
    e->code = code;
    e->sys = sys;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
  }
  return code;
}

const char *clu_code_text(int code) {
  return code >= 0 && code < CLU_N_CODES ? texts[code] : "unknown error";
}
