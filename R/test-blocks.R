# cluster_test(blocks = TRUE): test files that take longer than the share of a core are divided.
#
# A part is a test file of which a node runs some calls of test_that() only, see env_of_blocks().
# The session shows the parts of a file one behind the other, as one file: test-replay.R.

new_test_files <- function(s, names, folder) {
  blocks <- lapply(names, function(name) list(NULL))
  if (s$blocks) blocks <- blocks_of_files(s, names)
  of <- rep(seq_along(names), lengths(blocks))
  all <- lapply(seq_along(of), function(k) new_test_file(names[[of[[k]]]], folder, k))
  blocks <- unlist(blocks, recursive = FALSE)
  for (k in seq_along(all)) {
    f <- all[[k]]
    f$blocks <- blocks[[k]]
    f$parts <- sum(of == of[[k]])
    f$is_first <- !of[[k]] %in% of[seq_len(k - 1L)]
    f$is_last <- !of[[k]] %in% of[-seq_len(k)]
  }
  all
}

# For each file a list with the numbers of the blocks of each part; list(NULL): it is not divided.
blocks_of_files <- function(s, names) {
  took <- known_times(s)[names]
  share <- sum(took, na.rm = TRUE) / s$nodes
  lapply(seq_along(names), function(k) {
    if (is.na(took[[k]]) || took[[k]] <= share) return(list(NULL))
    n <- count_blocks(file.path(s$dir, names[[k]]))
    # nobody knows how long a block takes: with twice as many parts all cores have more often work
    parts <- min(ceiling(2 * took[[k]] / share), floor(took[[k]] / WORTH_DIVIDING), n)
    if (parts < 2L) return(list(NULL))
    unname(split(seq_len(n), sort(rep_len(seq_len(parts), n))))
  })
}

WORTH_DIVIDING <- 0.3 # seconds of a part at least: a process more takes 0.1

# How many calls of test_that() are at the top of a file that can be divided by them; else 0.
count_blocks <- function(path) {
  code <- tryCatch(parse(text = read_code_lines(path), keep.source = FALSE, encoding = "UTF-8"),
                   error = function(e) NULL)
  is_block <- vapply(code, is_call_of, NA, "test_that")
  inside <- unlist(lapply(code[is_block], function(x) all.names(as.call(as.list(x)[-1L]))))
  outside <- unlist(lapply(code[!is_block], all.names))
  keeps <- any(grepl("snapshot|^verify_output$|^expect_known_", c(inside, outside)))
  tests <- any(grepl("^(expect_.*|skip.*|test_that|describe|it|context.*|fail|succeed)$", outside))
  if (keeps || tests || any(c("test_that", "describe") %in% inside)) 0L else sum(is_block)
}

is_call_of <- function(x, name) is.call(x) && identical(x[[1L]], as.name(name))
