# Compiled code asks R's compiler for this: see src/r/node/compiled.c.

# A closure that R would compile if it had not met the same body in another place: see
# src/r/node/compiled.c.
node_compile <- function(f) tryCatch(compiler::cmpfun(f), error = function(e) f)

# Functions that are part of compiled code where the workspace is above it, if base R's are found
# when it is compiled. All others are looked up when they are called.
node_language_functions <- function(unused) {
  get0("languageFuns", envir = asNamespace("compiler"), inherits = FALSE)
}
