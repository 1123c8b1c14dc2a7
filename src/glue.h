/* The glue between R and the core: the only C that includes R headers.
 *
 * ffi_*() are the doors of .Call: they check, convert and call the core. An R error is a jump, so no
 * function of the core is ever on the stack below one; what the core holds belongs to external
 * pointers, or is freed by R_UnwindProtect().
 */
#ifndef CLUTCH_GLUE_H
#define CLUTCH_GLUE_H

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <Rversion.h>

#include "core/blob.h"
#include "core/err.h"

/* R 4.6 has no ATTRIB() any more. */
#if R_VERSION >= R_Version(4, 5, 0)
#define clu_has_attributes(x) ANY_ATTRIB(x)
#else
#define clu_has_attributes(x) (ATTRIB(x) != R_NilValue)
#endif

/* Raises an R condition of class "clutch_<what>", then "clutch_error". Does not return. */
void clu_raise(const char *what, const char *fmt, ...);
/* The same for a failure of the core. */
void clu_raise_err(const clu_err *e);
/* The same for a "cluster" or "task" of another process, whose pointers were lost on the way here. */
void clu_raise_foreign(const char *what);
/* Whether this process is a node that has said hello. */
extern int clu_is_node;

/* The object in R's binary format, behind what is in `b` already; NULL: a new blob. Takes over the reference
 * to `b` and hands it back. May raise R's own errors; leaks nothing then. */
clu_blob *clu_serialize(clu_blob *b, SEXP x);
/* Called now and then while a large object is written or read; may jump out. R_CheckUserInterrupt() at first. */
void clu_serialize_look_up(void (*fn)(void));
/* The object behind the first `skip` bytes. Consumes the reference to `b`, also on a jump. */
SEXP clu_unserialize(clu_blob *b, size_t skip);
/* The object in memory that R does not own and that stays through a jump (on the stack, static). */
SEXP clu_unserialize_bytes(const unsigned char *p, size_t n);
/* The object whose bytes `read` gives piece by piece: exactly `n` bytes and CLU_OK, or a code that becomes an
 * R error. Nothing is held meanwhile, the bytes go where they belong. */
typedef int (*clu_reader)(void *data, void *p, size_t n);
SEXP clu_unserialize_from(clu_reader read, void *data);

#define CLU_MOST_FUN 4096 /* bytes of a function that travels apart from its arguments */

/* Whether to wait awake: not where that was in vain some times in a row, as between two processes on one processor; tried
 * again now and then. */
typedef struct clu_spins {
  unsigned misses, waits;
} clu_spins;
static inline int clu_spin_pays(clu_spins *s) { return s->misses < 4 || ++s->waits % 64 == 0; }
static inline void clu_spin_ended(clu_spins *s, int paid) { s->misses = paid ? 0 : s->misses + 1; }

/* glue-plain.c. Until it has learned how NULL looks in R's format, nothing is plain. */
void clu_plain_learn(const unsigned char *null, size_t n);
/* Appends a plain value: 1, or 0 for others, and then nothing is appended. */
int clu_plain_put(clu_blob *b, SEXP x);
/* The same without what every object's bytes begin with, to `p` with room for `n` bytes: how many it took; 0: it is
 * not plain, or too large. An R error when what clu_plain_bare_get() is given is no such thing. */
size_t clu_plain_bare(unsigned char *p, size_t n, SEXP x);
SEXP clu_plain_bare_get(const unsigned char *p, size_t n);
/* A plain value; NULL when it is none. */
SEXP clu_plain_get(const unsigned char *p, size_t n);

/* glue-master.c */
SEXP ffi_server_start(SEXP file, SEXP argv, SEXP envp, SEXP log);
SEXP ffi_server_send(SEXP server, SEXP kind, SEXP object);
SEXP ffi_server_wait(SEXP server, SEXP seconds);
SEXP ffi_server_settings(SEXP server, SEXP object, SEXP output, SEXP seconds);
SEXP ffi_server_info(SEXP server);
SEXP ffi_server_close(SEXP server, SEXP seconds);
SEXP ffi_nodes_spawn(SEXP server, SEXP ranks, SEXP by_exec);
SEXP ffi_nodes_wait(SEXP handles, SEXP seconds);
SEXP ffi_nodes_stop(SEXP handles, SEXP grace_ms, SEXP seconds);
SEXP ffi_node_info(SEXP handle);
SEXP ffi_node_swap(SEXP handle, SEXP fresh);
SEXP ffi_owner_begin(SEXP frame, SEXP burst, SEXP frames);
SEXP ffi_node_send(SEXP handle, SEXP data, SEXP frame, SEXP outer);
SEXP ffi_node_recv(SEXP handle);
SEXP ffi_node_ready(SEXP handle);
SEXP ffi_any_recv(SEXP nodes);
SEXP ffi_live_handles(void);

/* glue-muster.c */
SEXP ffi_muster_open(SEXP host, SEXP ports, SEXP backlog, SEXP secret);
SEXP ffi_muster_secret(SEXP muster);
SEXP ffi_muster_node(SEXP muster, SEXP rank, SEXP settings);
SEXP ffi_muster_spawn(SEXP muster, SEXP handle, SEXP argv, SEXP envp, SEXP how);
SEXP ffi_muster_wait(SEXP muster, SEXP n, SEXP seconds);
SEXP ffi_muster_report(SEXP muster);
SEXP ffi_muster_close(SEXP muster);

/* glue-psock.c */
SEXP ffi_psock_listen(SEXP host, SEXP ports, SEXP backlog);
SEXP ffi_psock_accept(SEXP listener);
SEXP ffi_psock_ready(SEXP list, SEXP seconds);
SEXP ffi_psock_queue(SEXP x, SEXP object, SEXP epoch);
SEXP ffi_psock_flush(SEXP x, SEXP seconds);
SEXP ffi_psock_awaited(SEXP x);
SEXP ffi_psock_recv(SEXP x, SEXP seconds, SEXP bytes, SEXP node);
SEXP ffi_psock_close(SEXP x);
SEXP ffi_psock_is_ready(SEXP handle, SEXP pid);
SEXP ffi_node_child_pid(SEXP handle);
SEXP ffi_node_lost(SEXP handle);

/* glue-join.c */
SEXP ffi_join(SEXP host, SEXP port, SEXP rank, SEXP seconds, SEXP local);
SEXP ffi_output_to(SEXP path);

/* glue-server.c */
SEXP ffi_fork_server_begin(SEXP exec, SEXP idle);
SEXP ffi_fork_server_temp(void);
SEXP ffi_fork_server_serve(void);
SEXP ffi_fork_server_answer(SEXP kind, SEXP seq, SEXP object);

/* glue-node.c */
SEXP ffi_node_begin(void);
SEXP ffi_node_begin_exec(SEXP slot, SEXP tmp);
SEXP ffi_node_begin_joined(SEXP problem);
SEXP ffi_node_loop(SEXP env);
SEXP ffi_node_failed(SEXP value);
SEXP ffi_node_interrupted(SEXP value);
SEXP ffi_node_closed(void);
SEXP ffi_node_end(void);

/* glue-work.c */
SEXP ffi_node_at_task(void);
SEXP ffi_work_unreadable(SEXP failure);
SEXP ffi_work_environment(SEXP old);
SEXP ffi_work_sinks(SEXP output);
SEXP ffi_task_attempt(void);

/* glue-relay.c */
SEXP ffi_work_log(SEXP cond, SEXP now);
SEXP ffi_work_slim(SEXP cond);
SEXP ffi_work_output(void);

/* glue-tasks.c */
SEXP ffi_tasks_new(SEXP handles, SEXP grace, SEXP most);
SEXP ffi_tasks_attach(SEXP x, SEXP index);
SEXP ffi_tasks_step(SEXP x, SEXP job, SEXP seconds, SEXP seen);
SEXP ffi_tasks_deaths(SEXP x);
SEXP ffi_tasks_trace(SEXP x);
SEXP ffi_tasks_open(SEXP x);
SEXP ffi_tasks_jobs(SEXP x);
SEXP ffi_job_new(SEXP x, SEXP about, SEXP elements, SEXP spec, SEXP seed, SEXP only);
SEXP ffi_job_start(SEXP x, SEXP job);
SEXP ffi_tasks_unlimited(SEXP x);
SEXP ffi_job_ready(SEXP job);
SEXP ffi_job_state(SEXP job);
SEXP ffi_job_values(SEXP job);
SEXP ffi_job_failures(SEXP job, SEXP from);
SEXP ffi_job_relay(SEXP job);
SEXP ffi_job_end(SEXP job, SEXP wait);
SEXP ffi_job_strand(SEXP job, SEXP cause);
SEXP ffi_stream_jump(SEXP state, SEXP n);

/* glue-globals.c */
SEXP ffi_globals_new(void);
SEXP ffi_globals_search(SEXP x, SEXP roots, SEXP also);
SEXP ffi_globals_names(SEXP x, SEXP code);

/* glue-sys.c */
SEXP ffi_affinity_count(void);
SEXP ffi_system_can(void);
SEXP ffi_limits(void);
SEXP ffi_raise_fds(SEXP n);
SEXP ffi_thread_count(void);
SEXP ffi_process_memory(SEXP pid);
SEXP ffi_remove_tree(SEXP path);
SEXP ffi_clock(void);
SEXP ffi_signal_name(SEXP sig);
SEXP ffi_show_warning(SEXP text, SEXP call);
SEXP ffi_weak_new(SEXP env, SEXP value);
SEXP ffi_weak_value(SEXP ref);
SEXP ffi_weak_get(SEXP ref);
SEXP ffi_random_seeds(SEXP n);

/* glue-socket.c */
SEXP ffi_socket_new(SEXP blocking, SEXP timeout);
SEXP ffi_socket_options(SEXP x, SEXP options);
SEXP ffi_socket_get_options(SEXP x);
SEXP ffi_socket_listen(SEXP x, SEXP host, SEXP port, SEXP path, SEXP backlog, SEXP keep, SEXP options);
SEXP ffi_socket_connect(SEXP x, SEXP host, SEXP port, SEXP path, SEXP timeout, SEXP options);
SEXP ffi_socket_accept(SEXP listener, SEXP x, SEXP timeout, SEXP options);
SEXP ffi_socket_timeout(SEXP x, SEXP seconds);
SEXP ffi_socket_shutdown(SEXP x, SEXP how);
SEXP ffi_socket_end(SEXP x, SEXP seconds);
SEXP ffi_socket_here(SEXP x);
SEXP ffi_socket_drop(SEXP x);
SEXP ffi_socket_read(SEXP x, SEXP n, SEXP exact);
SEXP ffi_socket_write(SEXP x, SEXP data);
SEXP ffi_socket_select(SEXP list, SEXP write, SEXP timeout);
SEXP ffi_service_probe(SEXP x, SEXP host, SEXP ports, SEXP timeout);

/* glue-socket-con.c */
SEXP ffi_connection_new(SEXP handle, SEXP description, SEXP class, SEXP mode, SEXP blocking, SEXP encoding, SEXP opener);
SEXP ffi_connection_uncork(SEXP shell, SEXP value, SEXP none);
SEXP ffi_connection_left(SEXP shell, SEXP whole);

/* glue-socket-info.c */
SEXP ffi_socket_info(SEXP x);
SEXP ffi_socket_table(void);
SEXP ffi_connection_fd(SEXP x);
SEXP ffi_socket_count(void);

#endif
