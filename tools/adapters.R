# Rscript tools/adapters.R RESULT-FILE LOG ...
# Reads what the scripts of tests/adapters/ have printed, keeps it in bench/report/adapters.csv, and
# says whether each suite passes as much with clutch as with its package's default.

args <- commandArgs(TRUE)
lines <- unlist(lapply(args[-1L], readLines, warn = FALSE))
pattern <- "^(\\S[^(]*) \\(([^)]*)\\): ([0-9]+) ([0-9]+) ([0-9]+)$"
lines <- grep(pattern, lines, value = TRUE)
part <- function(k) sub(pattern, paste0("\\", k), lines)
now <- data.frame(suite = part(1), with = part(2), passed = as.integer(part(3)),
                  failed = as.integer(part(4)), skipped = as.integer(part(5)))

file <- "bench/report/adapters.csv"
before <- if (file.exists(file)) utils::read.csv(file, stringsAsFactors = FALSE)
table <- rbind(before[!before$suite %in% now$suite, ], now)
table <- table[order(table$suite), ]
utils::write.csv(table, file, row.names = FALSE)
print(table, row.names = FALSE)

# a suite may be run with several plans of either
ours <- grepl("clutch", now$with, fixed = TRUE)
worse <- vapply(unique(now$suite), function(suite) {
  most <- function(which) max(now$passed[which & now$suite == suite], -1L)
  most(ours) < most(!ours)
}, NA)
cat(sprintf("test-adapters: %d suites, %d with fewer checks passed than by default\n",
            length(unique(now$suite)), sum(worse)))
writeLines(sprintf("%d %d 0", sum(!worse), sum(worse)), args[[1L]])
quit("no", if (any(worse) || !nrow(now)) 1L else 0L)
