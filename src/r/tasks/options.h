/* The options of a map or task, as C reads them. */
#ifndef CLUTCH_TASK_OPTIONS_H
#define CLUTCH_TASK_OPTIONS_H

/* Tells whether an option of this package is set. */
int clu_options_any(void);
/* The stream of the first task, six integers, as the session's generator says, of which one number
 * is drawn. */
void clu_stream_of_session(int *stream);

#endif
