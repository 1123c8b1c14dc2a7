# Which test files depend on what was saved of a package's R code. Told by names alone: nothing is
# run for it, and what is not known counts as used.
#
# A definition is an expression at the top of a file, list(names, text, placed, is_function, words):
# what it assigns to, NA if that is nothing or cannot be told; the expression as a text, and with
# its places in the file; whether it is `name <- function(...)`; all words of its text. Code uses
# what its words name: symbols and strings. What is called by a name that is put together as it runs
# is not seen.
#
# `code` is a list of such lists by the path of their file. It has an error in place of a list where
# a file cannot be parsed.

read_definitions <- function(path) {
  tryCatch({
    lines <- read_code_lines(path)
    source <- srcfilecopy(path, lines, file.mtime(path), isFile = TRUE)
    placed <- parse(text = lines, keep.source = TRUE, srcfile = source, encoding = "UTF-8")
    plain <- parse(text = lines, keep.source = FALSE, encoding = "UTF-8")
    refs <- attr(placed, "srcref")
    lapply(seq_along(plain), function(k) new_definition(plain[[k]], placed[k], refs[[k]]))
  }, error = function(e) e)
}

# Packages are in UTF-8, or they are older than that.
read_code_lines <- function(path) {
  lines <- readLines(path, warn = FALSE)
  is_utf8 <- validUTF8(lines)
  lines[!is_utf8] <- iconv(lines[!is_utf8], "latin1", "UTF-8")
  Encoding(lines) <- "UTF-8"
  lines
}

new_definition <- function(code, placed, ref) {
  names <- character()
  value <- code
  while (is_assignment(value)) {
    to <- value[[2L]]
    names <- c(names, if (is.symbol(to) || is.character(to)) as.character(to) else NA)
    value <- value[[3L]]
  }
  is_function <- is.call(value) && identical(value[[1L]], quote(`function`)) &&
    length(names) == 1L && !is.na(names)
  if (!length(names) || makes_classes(value)) names <- c(names, NA)
  text <- paste(deparse(code, control = c("keepNA", "keepInteger", "digits17")), collapse = "\n")
  list(names = as.character(names), text = text, placed = placed, is_function = is_function,
       words = words_of(as.character(ref)))
}

is_assignment <- function(x) {
  is.call(x) && length(x) == 3L &&
    (identical(x[[1L]], quote(`<-`)) || identical(x[[1L]], quote(`=`)))
}

# Classes and generics have names of their own.
makes_classes <- function(value) {
  if (!is.call(value)) return(FALSE)
  f <- value[[1L]]
  if (is.call(f) && length(f) == 3L) f <- f[[3L]] # methods::setClass
  is.symbol(f) && grepl("^set[A-Z]|^new_(class|generic|external_generic)$", as.character(f))
}

WORD <- "[[:alpha:].][[:alnum:]._]*"
OPERATOR <- "%[^%]*%"

words_of <- function(lines) {
  found <- c(gregexpr(WORD, lines), gregexpr(OPERATOR, lines))
  unique(unlist(regmatches(c(lines, lines), found)))
}

# A name that is no word, such as that of a method of an operator, is in no text.
is_code_word <- function(names) grepl(sprintf("^(%s|%s)$", WORD, OPERATOR), names)

# ---- what has changed ----

all_of <- function(code) as.list(unlist(unname(code), recursive = FALSE))
names_of_code <- function(all) as.character(unlist(lapply(all, function(d) d$names)))
texts_of_code <- function(all) vapply(all, function(d) d$text, "")

# The value is list(names, patch): the names of what differs, with NA if something may that has
# none; the definitions that are new, where putting these into the package is all that has to be
# done, else NULL.
changes_of_code <- function(before, now) {
  was <- all_of(before)
  is <- all_of(now)
  new <- is[!texts_of_code(is) %in% texts_of_code(was)]
  old <- was[!texts_of_code(was) %in% texts_of_code(is)]
  replaced <- names_of_code(new)
  names <- unique(c(replaced, names_of_code(old)))
  if (has_another_order(before, now)) names <- union(names, NA)
  can_patch <- !anyNA(names) && all(vapply(c(new, old), function(d) d$is_function, NA)) &&
    all(names_of_code(old) %in% replaced) && !any(replaced %in% HOOKS) &&
    !any(replaced %in% twice_in(names_of_code(is)))
  list(names = names, patch = if (can_patch) new)
}

twice_in <- function(names) names[duplicated(names)]

# The order matters where a name is there twice, and for what is no function.
has_another_order <- function(before, now) {
  differs <- function(path) {
    a <- before[[path]]
    b <- now[[path]]
    rest <- function(x) {
      twice <- twice_in(names_of_code(x))
      texts_of_code(Filter(function(d) !d$is_function || d$names %in% twice, x))
    }
    setequal(texts_of_code(a), texts_of_code(b)) && !identical(rest(a), rest(b))
  }
  any(vapply(intersect(names(before), names(now)), differs, NA))
}

HOOKS <- c(".onLoad", ".onAttach", ".onUnload", ".onDetach", ".First.lib", ".Last.lib")

# ---- who uses it ----

# `code`: of the package; `helpers`: of its helper and setup files, and of other files that tests
# may source; `changed`: names; `methods`: of S3, see methods_in(). The value is list(names, is_all,
# at_load): what uses one of these, with them; whether anything may; whether something may have used
# it when the package was loaded, or its helpers.
users_of <- function(changed, code, helpers, methods) {
  all <- c(all_of(code), all_of(helpers))
  words <- lapply(all, function(d) d$words)
  of <- rep(seq_along(all), lengths(words))
  words <- unlist(words)
  found <- changed
  repeat {
    using <- unique(of[words %in% found])
    now <- union(found, c(names_of_code(all[using]), generics_of(found, methods)))
    if (length(now) == length(found)) break
    found <- now
  }
  known <- found[!is.na(found)]
  is_later <- any(is_registered_later(changed, words))
  is_all <- anyNA(found) || any(known %in% c(HOOKS, FOREIGN)) || !all(is_code_word(known)) ||
    is_later
  at_load <- any(!vapply(all[using], function(d) d$is_function, NA)) || any(known %in% HOOKS) ||
    any(changed %in% methods$delayed) || is_later
  list(names = known, is_all = is_all, at_load = at_load)
}

# A method is used where its generic is. Nobody knows who uses a generic that is not the package's.
FOREIGN <- "the generic of another package"

generics_of <- function(names, methods) {
  c(methods$generic[methods$method %in% names], if (any(names %in% methods$foreign)) FOREIGN)
}

is_registered_later <- function(names, words) {
  any(c("s3_register", "registerS3method", ".S3method", "registerS3methods") %in% words) &
    grepl(".", names, fixed = TRUE)
}

# Methods of S3: list(method, generic, foreign, said, delayed), by NAMESPACE, and by name where it
# is of a generic of the package or of one that R has. `said`: by NAMESPACE only, a data frame of
# method, generic and class; `delayed`: those of a package that may not be loaded.
methods_in <- function(root, code) {
  names <- unique(names_of_code(all_of(code)))
  names <- names[!is.na(names)]
  m <- tryCatch(parseNamespaceFile(basename(root), dirname(root))$S3methods,
                error = function(e) NULL)
  if (is.null(m)) m <- matrix(character(), 0L, 4L)
  if (ncol(m) < 4L) m <- cbind(m, rep(NA_character_, nrow(m)))
  said <- data.frame(method = ifelse(is.na(m[, 3L]), paste(m[, 1L], m[, 2L], sep = "."), m[, 3L]),
                     generic = sub(".*::", "", m[, 1L]), class = m[, 2L],
                     is_delayed = !is.na(m[, 4L]) | grepl("::", m[, 1L], fixed = TRUE))
  method <- said$method
  generic <- said$generic
  for (name in names[grepl("[^.][.][^.]", names)]) {
    dots <- gregexpr(".", name, fixed = TRUE)[[1L]]
    before <- substring(name, 1L, dots - 1L)
    before <- before[before %in% names | before %in% r_generics()]
    method <- c(method, rep(name, length(before)))
    generic <- c(generic, before)
  }
  list(method = method, generic = generic, foreign = unique(method[!generic %in% names]),
       said = said[!said$is_delayed, ], delayed = said$method[said$is_delayed])
}

r_generics <- function() c(names(.knownS3Generics), .S3PrimitiveGenerics)
