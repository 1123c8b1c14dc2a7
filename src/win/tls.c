/* There is no TLS on Windows yet. */
#include "core/base/os-tls.h"

const clu_tls_port *clu_os_tls(void) { return NULL; }
