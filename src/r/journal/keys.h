/* Keys: hashes of R objects that say what would be computed, whoever asks and whenever.
 *
 * Two objects have the same key when a function cannot tell them apart: byte code and source
 * references do not count, nor how a vector is stored (ALTREP, compact row names, encodings of the
 * same text), the order of attributes, and which environment it is that holds variables. A
 * namespace or package counts by its name, but one that pkgload::load_all() has made by its code.
 *
 * Of the environment of a function, or formula, only those variables count that its code mentions,
 * by a symbol, by a string, or by a string in such a variable; all do where the code, or a function
 * that it has there, asks for variables by other means (get(), eval(), do.call(), ...). Of that of
 * a formula all count. Of attached packages that not every R has, those count in which names are
 * found that the code mentions, with these names. So a clock, a connection or a cluster that lies
 * beside does not make another key. Environments that are data count with all that is in them.
 * Clusters of this package, pointers and connections are all the same: on a node they are of no
 * use. An object that is made again there is as the data of which it is made.
 *
 * A generic function of package methods counts with the methods that the workspace has for it.
 *
 * Hash: core/base/hash.h. Memory is R's: a jump leaks nothing.
 */
#ifndef CLUTCH_R_KEYS_H
#define CLUTCH_R_KEYS_H

#include "core/base/hash.h"
#include "r/base/r-api.h"

/* The key of an object. `start`: the key with which the hash begins, or NULL. `all`: of the
 * environments of functions all variables count. `made`: an environment that has, by the address of
 * an object, the key of the data of which it is made again elsewhere; or R_NilValue. Promises are
 * forced, so code of R may run; may jump. */
void clu_key_of(SEXP x, const unsigned char *start, int all, SEXP made,
                unsigned char out[CLU_HASH]);
/* Does the same of element `i` of a list or of a plain vector, as the node gets it. */
void clu_key_of_element(SEXP x, R_xlen_t i, const unsigned char *start, SEXP made,
                        unsigned char out[CLU_HASH]);

#endif
