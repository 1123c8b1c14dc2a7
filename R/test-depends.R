# Which test files depend on what was saved of a package's R code. Told by names alone: nothing is
# run for it, and what is not known counts as used.
#
# A definition is an expression at the top of a file, list(name, code, placed, is_function, words):
# what it assigns to, or NA; the expression, plain and with its places in the file; whether it is
# `name <- function(...)`; all words of its text. A package, too, uses what its words name: symbols
# and strings. What is called by a name that is put together as it runs is not seen.

# The value is a list of definitions, or the error of a file that cannot be parsed.
definitions_of <- function(path) {
  lines <- readLines(path, warn = FALSE, encoding = "UTF-8")
  tryCatch({
    source <- srcfilecopy(path, lines, file.mtime(path), isFile = TRUE)
    placed <- parse(text = lines, keep.source = TRUE, srcfile = source)
    plain <- parse(text = lines, keep.source = FALSE)
    refs <- attr(placed, "srcref")
    lapply(seq_along(plain), function(k) new_definition(plain[[k]], placed[k], refs[[k]]))
  }, error = function(e) e)
}

new_definition <- function(code, placed, ref) {
  is_assignment <- is.call(code) && length(code) == 3L &&
    (identical(code[[1L]], quote(`<-`)) || identical(code[[1L]], quote(`=`)))
  to <- if (is_assignment) code[[2L]]
  name <- if (is.symbol(to) || is.character(to)) as.character(to) else NA_character_
  value <- if (is_assignment) code[[3L]]
  is_function <- !is.na(name) && is.call(value) && identical(value[[1L]], quote(`function`))
  list(name = name, code = code, placed = placed, is_function = is_function,
       words = words_of(as.character(ref)))
}

WORD <- "[[:alpha:].][[:alnum:]._]*|%[^%]*%"

words_of <- function(lines) unique(unlist(regmatches(lines, gregexpr(WORD, lines))))

# A name that is no word, such as that of a method of an operator, is in no text.
is_code_word <- function(names) grepl(sprintf("^(%s)$", WORD), names)

# ---- what has changed ----

# Definitions of one file, before and now. The value is list(names, patch): the names of those that
# differ, NA for an expression without one; the new ones, where putting these into the package is
# all that has to be done, else NULL.
changes_of_file <- function(before, now) {
  texts <- function(all) vapply(all, function(d) paste(deparse(d$code), collapse = "\n"), "")
  was <- texts(before)
  is <- texts(now)
  new <- now[!is %in% was]
  old <- before[!was %in% is]
  names_of <- function(all) vapply(all, function(d) d$name, "")
  replaced <- names_of(new)
  can_patch <- all(vapply(c(new, old), function(d) d$is_function, NA)) &&
    all(names_of(old) %in% replaced) && !anyDuplicated(names_of(now)) &&
    !any(replaced %in% HOOKS)
  list(names = unique(c(replaced, names_of(old))), patch = if (can_patch) new)
}

HOOKS <- c(".onLoad", ".onAttach", ".onUnload", ".onDetach", ".First.lib", ".Last.lib")

# ---- who uses it ----

# `code`: definitions of the package; `helpers`: of its helper files; `changed`: names; `methods`:
# of S3, see methods_in(). The value is list(names, is_all, at_load): what uses one of these, with
# them; whether anything may; whether the value of something that is no function may have used it
# when the package was loaded.
users_of <- function(changed, code, helpers, methods) {
  all <- c(code, helpers)
  names <- vapply(all, function(d) d$name, "")
  words <- lapply(all, function(d) d$words)
  of <- rep(seq_along(all), lengths(words))
  words <- unlist(words)
  found <- changed
  repeat {
    using <- unique(of[words %in% found])
    found_now <- union(found, c(names[using], generics_of(found, methods)))
    if (length(found_now) == length(found)) break
    found <- found_now
  }
  is_function <- vapply(all, function(d) d$is_function, NA)
  known <- found[!is.na(found)]
  list(names = known, is_all = anyNA(found) || any(known %in% c(HOOKS, FOREIGN)) ||
         !all(is_code_word(known)),
       at_load = any(!is_function[using] & using <= length(code)))
}

# A method is used where its generic is. Nobody knows who uses a generic that is not the package's.
FOREIGN <- "the generic of another package"

generics_of <- function(names, methods) {
  c(methods$generic[methods$method %in% names], if (any(names %in% methods$foreign)) FOREIGN)
}

# Methods of S3: list(method, generic, foreign). By NAMESPACE, and by name where it is of a generic
# of the package or of one that R has.
methods_in <- function(root, code) {
  names <- vapply(code, function(d) d$name, "")
  names <- unique(names[!is.na(names)])
  said <- tryCatch(parseNamespaceFile(basename(root), dirname(root))$S3methods,
                   error = function(e) matrix(character(), 0L, 3L))
  method <- ifelse(is.na(said[, 3L]), paste(said[, 1L], said[, 2L], sep = "."), said[, 3L])
  generic <- said[, 1L]
  for (name in names[grepl("[^.][.][^.]", names)]) {
    dots <- gregexpr(".", name, fixed = TRUE)[[1L]]
    before <- substring(name, 1L, dots - 1L)
    before <- before[before %in% names | before %in% r_generics()]
    method <- c(method, rep(name, length(before)))
    generic <- c(generic, before)
  }
  list(method = method, generic = generic, foreign = unique(method[!generic %in% names]))
}

r_generics <- function() c(names(.knownS3Generics), .S3PrimitiveGenerics)
