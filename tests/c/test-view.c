/* The view of a cluster: what its session writes and an observer reads. */
#include "test.h"

#include <sys/wait.h>

#include "core/view/view.h"

static clu_view *made(uint64_t nodes) {
  clu_view_about about;
  clu_err e = {0, 0, ""};
  clu_view *v;
  memset(&about, 0, sizeof about);
  about.nodes = nodes;
  about.pid = 42;
  v = clu_view_new(&about, &e);
  REQUIRE(v != NULL);
  return v;
}

static clu_view *reader_of(const clu_view *v) {
  clu_err e = {0, 0, ""};
  clu_view *r = clu_view_map(v->fd, &e);
  REQUIRE(r != NULL);
  return r;
}

static void send(clu_view *v, int node, uint64_t seq, uint64_t n, uint64_t job, uint64_t first) {
  clu_view_batch b = {seq, n, job, first};
  clu_view_sent(v, node, &b, 100, -1, 0, 0);
}

TEST(without_a_view_nothing_is_shown) {
  clu_view_end end = {1, 0, 0, 0, 0, 0, 0, 1, 1};
  CHECK_INT_EQ(clu_view_job_begins(NULL, 1, 1, 1), -1);
  clu_view_job_label(NULL, 0, 1, "f");
  clu_view_job_ends(NULL, 0, 1, 1);
  send(NULL, 0, 1, 1, 1, 0);
  clu_view_ended(NULL, &end);
  clu_view_tell(NULL, "death", 1, "text", 1);
  clu_view_actor_begins(NULL, 1, "name", "label");
  clu_view_unref(NULL);
  CHECK(clu_view_node_at(NULL, 0) == NULL);
}

TEST(another_process_reads_what_the_session_writes) {
  clu_view *v = made(2);
  int status = -1;
  pid_t pid;
  clu_view_tell(v, "start", 0, "two nodes", 7);
  pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    clu_err e;
    clu_view *r = clu_view_map(v->fd, &e);
    clu_view_event x;
    if (!r || r->memory->about.pid != 42) _exit(3);
    if (!clu_view_read_event(r, 0, &x) || strcmp(x.text, "two nodes") != 0) _exit(4);
    if (clu_view_get(&x.at) != 7 || strcmp(x.kind, "start") != 0) _exit(5);
    clu_view_unref(r);
    _exit(0);
  }
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK_INT_EQ(status, 0);
  clu_view_unref(v);
}

/* With its session's process id; that the system can find it there. */
static clu_view *made_here(int *is_found) {
  clu_view_about about;
  clu_err e = {0, 0, ""};
  clu_view *v;
  void *p;
  int rc;
  memset(&about, 0, sizeof about);
  about.pid = (uint64_t)getpid();
  v = clu_view_new(&about, &e);
  REQUIRE(v != NULL);
  rc = clu_os_shared_of(getpid(), v->fd, sizeof *v->memory, &p);
  *is_found = rc == CLU_OK;
  CHECK(rc == CLU_OK || rc == CLU_UNSUPPORTED);
  if (rc == CLU_OK) clu_os_shared_free(p, sizeof *v->memory);
  return v;
}

TEST(a_view_is_found_in_its_session_by_a_process_that_got_nothing_of_it) {
  int is_found, status = -1;
  clu_view *v = made_here(&is_found), *r;
  pid_t me = getpid(), pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    clu_fd fd = v->fd;
    clu_os_close(fd);
    clu_os_shared_free(v->memory, sizeof *v->memory);
    r = clu_view_map_of(me, fd);
    if (!r) _exit(is_found ? 3 : 0);
    clu_view_tell(r, "start", 0, "seen", 7);
    clu_view_unref(r);
    _exit(0);
  }
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK_INT_EQ(status, 0);
  CHECK_INT_EQ(clu_view_get(&v->memory->nevents), (uint64_t)is_found);
  CHECK(clu_view_map_of(me, v->fd + 1000) == NULL);
  /* sealed: it is shown to nobody any more */
  clu_view_seal(v);
  CHECK(clu_view_map_of(me, 1024) == NULL);
  clu_view_unref(v);
}

TEST(what_is_no_view_of_that_process_is_not_taken_for_one) {
  clu_view *v = made(1); /* of process 42 */
  char path[] = "/tmp/clutch-test-XXXXXX";
  int ends[2], file = mkstemp(path);
  clu_fd fd;
  void *p;
  clu_err e;
  CHECK(clu_view_map_of(getpid(), v->fd) == NULL);
  CHECK(clu_view_map_of(42, v->fd) == NULL);
  /* a file of that size, a pipe, memory of another size */
  REQUIRE(file >= 0 && ftruncate(file, sizeof *v->memory) == 0 && unlink(path) == 0);
  CHECK(clu_view_map_of(getpid(), file) == NULL);
  REQUIRE(pipe(ends) == 0);
  CHECK(clu_view_map_of(getpid(), ends[0]) == NULL);
  REQUIRE(clu_os_shared_new(4096, &p, &fd, &e) == CLU_OK);
  CHECK(clu_view_map_of(getpid(), fd) == NULL);
  clu_os_shared_free(p, 4096);
  clu_os_close(fd);
  close(ends[0]);
  close(ends[1]);
  close(file);
  clu_view_unref(v);
}

TEST(a_task_at_hand_is_found_among_the_last_batches) {
  clu_view *v = made(1), *r = reader_of(v);
  uint64_t job = 0, task = 0;
  send(v, 0, 10, 5, 3, 20);
  send(v, 0, 15, 1, 4, 0);
  CHECK_INT_EQ(clu_view_task_of(r, 0, 12, &job, &task), 1);
  CHECK_INT_EQ(job, 3);
  CHECK_INT_EQ(task, 22);
  CHECK_INT_EQ(clu_view_task_of(r, 0, 15, &job, &task), 1);
  CHECK_INT_EQ(job, 4);
  CHECK_INT_EQ(clu_view_task_of(r, 0, 9, &job, &task), 0);
  CHECK_INT_EQ(clu_view_task_of(r, 0, 16, &job, &task), 0);
  for (int k = 0; k < CLU_VIEW_BATCHES; k++) send(v, 0, 100 + (uint64_t)k, 1, 9, 0);
  CHECK_INT_EQ(clu_view_task_of(r, 0, 12, &job, &task), 0);
  send(v, CLU_VIEW_NODES, 1, 1, 1, 0); /* no room: it is not shown */
  clu_view_unref(r);
  clu_view_unref(v);
}

static void end_task(clu_view *v, int place, uint64_t job, uint64_t task, int ok,
                     uint32_t attempt) {
  clu_view_end x = {job, task, 100, 5, 8, place, 0, ok, attempt};
  clu_view_ended(v, &x);
}

TEST(the_task_at_hand_keeps_its_place_however_many_are_sent_and_taken_back) {
  clu_view *v = made(1);
  uint64_t job = 0, task = 0;
  send(v, 0, 10, 1, 3, 7);
  for (uint64_t k = 0; k < 5 * CLU_VIEW_BATCHES; k++) {
    clu_view_batch b = {11 + k, 1, 4 + k, 0};
    clu_view_sent(v, 0, &b, 100, -1, 0, 10);
  }
  CHECK_INT_EQ(clu_view_task_of(v, 0, 10, &job, &task), 1);
  CHECK_INT_EQ(job, 3);
  CHECK_INT_EQ(task, 7);
  CHECK_INT_EQ(clu_view_task_of(v, 0, 10 + 5 * CLU_VIEW_BATCHES, &job, &task), 1);
  clu_view_unref(v);
}

TEST(a_job_counts_its_tasks_and_ends_with_the_last) {
  clu_view *v = made(1);
  clu_view_job j;
  int at = clu_view_job_begins(v, 1, 3, 50);
  clu_view_batch b = {1, 2, 1, 0};
  clu_view_job_label(v, at, 1, "cluster_map(f)");
  REQUIRE(clu_view_read_job(v, at, &j));
  CHECK_INT_EQ(clu_view_get(&j.waiting), 3);
  clu_view_sent(v, 0, &b, 100, at, 1, 0);
  REQUIRE(clu_view_read_job(v, at, &j));
  CHECK_INT_EQ(clu_view_get(&j.waiting), 1);
  end_task(v, at, 1, 0, 1, 1);
  end_task(v, at, 1, 1, 0, 3);
  REQUIRE(clu_view_read_job(v, at, &j));
  CHECK_STR_EQ(j.label, "cluster_map(f)");
  CHECK_INT_EQ(clu_view_get(&j.done), 1);
  CHECK_INT_EQ(clu_view_get(&j.failed), 1);
  CHECK_INT_EQ(clu_view_get(&j.retries), 2);
  CHECK_INT_EQ(clu_view_get(&j.ended), 0);
  end_task(v, at, 1, 2, 1, 1);
  REQUIRE(clu_view_read_job(v, at, &j));
  CHECK_INT_EQ(clu_view_get(&j.ended), 105);
  clu_view_job_ends(v, at, 1, 999);
  REQUIRE(clu_view_read_job(v, at, &j));
  CHECK_INT_EQ(clu_view_get(&j.ended), 105);
  CHECK_INT_EQ(clu_view_get(&v->memory->given), 3);
  CHECK_INT_EQ(clu_view_get(&v->memory->done) + clu_view_get(&v->memory->failed), 3);
  clu_view_unref(v);
}

TEST(what_a_job_that_is_given_up_leaves_is_not_waited_for) {
  clu_view *v = made(1);
  int at = clu_view_job_begins(v, 1, 10, 50);
  end_task(v, at, 1, 0, 1, 1);
  clu_view_job_ends(v, at, 1, 60);
  CHECK_INT_EQ(clu_view_get(&v->memory->given), 1);
  clu_view_unref(v);
}

TEST(a_map_that_goes_on_keeps_its_place) {
  clu_view *v = made(1);
  clu_view_job j;
  int at = clu_view_job_begins(v, 1, 1000, 50);
  for (uint64_t k = 2; k < 1000; k++) {
    int single = clu_view_job_begins(v, 2 * k, 1, 50),
        map = clu_view_job_begins(v, 2 * k + 1, 2, 50);
    CHECK(single >= CLU_VIEW_MAPS && single < CLU_VIEW_JOBS);
    CHECK(map >= 0 && map < CLU_VIEW_MAPS && map != at);
    clu_view_job_ends(v, map, 2 * k + 1, 60);
  }
  REQUIRE(clu_view_read_job(v, at, &j));
  CHECK_INT_EQ(clu_view_get(&j.number), 1);
  clu_view_unref(v);
}

TEST(a_job_whose_place_is_taken_is_counted_in_all_only) {
  clu_view *v = made(1);
  int first = clu_view_job_begins(v, 1, 1, 50), place = -1;
  clu_view_job j;
  for (uint64_t k = 2; place != first; k++) place = clu_view_job_begins(v, k, 1, 50);
  end_task(v, first, 1, 0, 1, 1);
  REQUIRE(clu_view_read_job(v, first, &j));
  CHECK_INT_EQ(clu_view_get(&j.done), 0);
  CHECK_INT_EQ(clu_view_get(&v->memory->done), 1);
  clu_view_unref(v);
}

TEST(texts_are_cut_between_characters) {
  clu_view *v = made(1);
  clu_view_job j;
  char text[2 * CLU_VIEW_LABEL + 2];
  int at = clu_view_job_begins(v, 1, 2, 1);
  text[0] = 'a';
  for (int i = 0; i < CLU_VIEW_LABEL; i++) memcpy(text + 1 + 2 * i, "\303\244", 2);
  text[2 * CLU_VIEW_LABEL + 1] = 0;
  clu_view_job_label(v, at, 1, text);
  REQUIRE(clu_view_read_job(v, at, &j));
  CHECK_INT_EQ(strlen(j.label), CLU_VIEW_LABEL - 1);
  CHECK(strncmp(j.label, text, strlen(j.label)) == 0);
  clu_view_job_label(v, at, 1, text + 1); /* now half a character would be left */
  REQUIRE(clu_view_read_job(v, at, &j));
  CHECK_INT_EQ(strlen(j.label), CLU_VIEW_LABEL - 2);
  clu_view_unref(v);
}

TEST(what_is_half_written_is_not_read) {
  clu_view *v = made(1);
  clu_view_job j;
  int at = clu_view_job_begins(v, 1, 2, 1);
  clu_view_add(&v->memory->job[at].version, 1); /* the session was stopped just then */
  CHECK_INT_EQ(clu_view_read_job(v, at, &j), 0);
  clu_view_add(&v->memory->job[at].version, 1);
  CHECK_INT_EQ(clu_view_read_job(v, at, &j), 1);
  clu_view_unref(v);
}

TEST(the_last_actors_have_a_place) {
  clu_view *v = made(1);
  clu_view_actor a;
  char name[CLU_VIEW_NAME + 1];
  memset(name, 'n', sizeof name);
  name[CLU_VIEW_NAME] = 0;
  clu_view_actor_begins(v, 1, "first", "label");
  clu_view_actor_begins(v, 2, "second", "other");
  clu_view_actor_begins(v, 1 + CLU_VIEW_ACTORS, "later", "label");
  clu_view_actor_begins(v, 3, name, "its name has no room");
  CHECK_INT_EQ(clu_view_read_actor(v, 1, &a), 1);
  CHECK_INT_EQ(clu_view_get(&a.number), 1 + CLU_VIEW_ACTORS);
  CHECK_STR_EQ(a.name, "later");
  CHECK_INT_EQ(clu_view_read_actor(v, 2, &a), 1);
  CHECK_STR_EQ(a.label, "other");
  CHECK_INT_EQ(clu_view_get(&v->memory->actor[3].number), 0);
  clu_view_unref(v);
}

TEST(hosts_are_numbered_as_they_come) {
  clu_view *v = made(1);
  char name[20];
  CHECK_INT_EQ(clu_view_host(v, "alpha"), 0);
  CHECK_INT_EQ(clu_view_host(v, "beta"), 1);
  CHECK_INT_EQ(clu_view_host(v, "alpha"), 0);
  for (int i = 0; i < 2 * CLU_VIEW_HOSTS; i++) {
    snprintf(name, sizeof name, "host%d", i);
    CHECK(clu_view_host(v, name) < CLU_VIEW_HOSTS);
  }
  clu_view_unref(v);
}

TEST(what_a_node_is_at_is_seen) {
  clu_activity a;
  uint64_t since = 0;
  memset((void *)&a, 0, sizeof a);
  CHECK_INT_EQ(clu_activity_look(&a, &since), 0);
  clu_activity_begin(&a, 17, 1234);
  CHECK_INT_EQ(clu_activity_look(&a, &since), 17);
  CHECK_INT_EQ(since, 1234);
  clu_activity_end(&a);
  CHECK_INT_EQ(clu_activity_look(&a, &since), 0);
  CHECK_INT_EQ(atomic_load(&a.ended), 1);
  clu_activity_begin(NULL, 1, 1); /* a node without shared memory */
  clu_activity_end(NULL);
}
