/* The files of this port share this. */
#ifndef CLUTCH_WIN_H
#define CLUTCH_WIN_H

#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#elif _WIN32_WINNT < 0x0600
#error "WSAPoll() and lists of inherited handles need Windows Vista"
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
/* in this order: windows.h would bring the old winsock.h */
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>

#include "core/base/os.h"

/* Starts Winsock, once; by every function that may be the first to need it. CLU_OK or CLU_SYS. */
int clu_win_start(clu_err *e);
/* The system's sentence for an error of Win32 or Winsock, in UTF-8, without a newline. Returns
 * `out`. */
#define CLU_WIN_TEXT 160
const char *clu_win_text(int err, char out[CLU_WIN_TEXT]);
/* The code of an error of Winsock. */
int clu_win_code(int err);
/* Does the same of a transfer of bytes over a connection: CLU_AGAIN, CLU_RESET or CLU_SYS. */
int clu_win_transfer_code(int err);
/* A copy in UTF-16 for the caller to free(), or NULL. What is not UTF-8 is taken as the ANSI code
 * page's: R 4.2 and later use UTF-8, but where Windows does not know it as code page, or another
 * program is asking. */
wchar_t *clu_win_wide(const char *text);
/* Does the same of a path, made absolute and with the prefix that allows more than 260
 * characters. */
wchar_t *clu_win_wide_path(const char *path);

/* The command line for the arguments of a program, for the caller to free(); NULL: no memory. */
wchar_t *clu_win_command_line(char *const *argv);
/* The environment for a new process: `envp`, or this process's where that is NULL; with variable
 * `name` set to the number `value`, or without it where `value` is 0. For the caller to free();
 * NULL: no memory. */
wchar_t *clu_win_environment(char *const *envp, const wchar_t *name, uint64_t value);

/* A new stream socket: non-blocking and not inheritable; INVALID_SOCKET and WSAGetLastError()
 * otherwise. */
SOCKET clu_win_socket(int family);
/* Does the same of one that is there already. 0, or the error; then it is closed. */
int clu_win_prepare(SOCKET s);
/* Waits as WSAPoll(), but also for connections that fail (see poll.c), and for no sockets at all.
 * Entries are all valid. The number of those that are ready, or -1 and WSAGetLastError(). */
int clu_win_poll(WSAPOLLFD *set, int n, int64_t wait_ns);
/* Asks that a dead port refuses at once what this socket will try. 0, or the error. For loopback
 * addresses only: elsewhere the network may have lost the first SYN. */
int clu_win_refuse_fast(SOCKET s);
/* A system's sockaddr of `len` bytes as address. */
void clu_win_put(clu_addr *a, const void *sockaddr, size_t len);

/* The exit status of a process that is ended by "signal" `sig`: what is not a program's own number
 */
#define CLU_WIN_KILLED(sig) (0xE0C10000u + (unsigned)(sig))

#endif
