/* Tells whether somebody has seeded the session's random numbers.
 *
 * Nobody has, as long as there is no state; when the state is that which the last draw of this
 * package has left; and when R has seeded the generator itself, by the clock, and nobody has drawn
 * a number. The last comes of code that looks at the generator without using it, as that of all
 * functions made by Rcpp does. */
#ifndef CLUTCH_TASK_SEEDING_H
#define CLUTCH_TASK_SEEDING_H

/* Where nobody has, no other session can draw the same numbers. */
int clu_is_unseeded(void);
/* This package has drawn a number, and nobody had seeded the generator before. */
void clu_seed_is_ours(void);

#endif
