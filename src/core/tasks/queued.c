#include "core/tasks/queued.h"

#include "core/tasks/engine-private.h"

uint64_t clu_engine_queued_bytes(const clu_engine *t) { return t->queued.bytes; }

clu_task_job *clu_engine_oldest_task(const clu_engine *t) { return t->queued.oldest; }

void clu_task_job_count(clu_task_job *j) {
  struct clu_engine_queued *q = &j->engine->queued;
  if (!j->bare || j->counted) return;
  j->counted = 1;
  j->engine->jobs.nbare++;
  j->engine->jobs.nrestartable += j->spec.retries > 0;
  j->weight = clu_blob_weight(j->message);
  q->bytes += j->weight;
  j->older = q->newest;
  if (q->newest)
    q->newest->younger = j;
  else
    q->oldest = j;
  q->newest = j;
}

/* Its message is not sent any more. */
void clu_task_job_uncount(clu_task_job *j) {
  struct clu_engine_queued *q;
  if (!j->counted) return;
  q = &j->engine->queued;
  j->counted = 0;
  j->engine->jobs.nbare--;
  j->engine->jobs.nrestartable -= j->spec.retries > 0;
  q->bytes -= j->weight;
  if (j->older)
    j->older->younger = j->younger;
  else
    q->oldest = j->younger;
  if (j->younger)
    j->younger->older = j->older;
  else
    q->newest = j->older;
  j->older = j->younger = NULL;
  clu_blob_unref(j->message);
  j->message = NULL;
}
