# Helpers of the measurements: one line on the machine, medians, tables, pictures.

report <- function(file) {
  dir.create("bench/report", showWarnings = FALSE, recursive = TRUE)
  file.path("bench/report", file)
}

machine <- function() {
  cat(sprintf("%s, %s cores, %s, clutch %s\n\n", R.version.string, clutch::available_cores(),
              paste(Sys.info()[c("sysname", "release")], collapse = " "), utils::packageVersion("clutch")))
}

seconds <- function(expr) {
  t <- as.numeric(Sys.time()) # proc.time() counts milliseconds only
  force(expr)
  as.numeric(Sys.time()) - t
}

# Waits until these processes have ended: base R's workers end after stopCluster() has returned, and would take
# the next contender's time.
await_gone <- function(pids) {
  pids <- unlist(pids)
  end <- Sys.time() + 30
  while (any(file.exists(file.path("/proc", pids))) && Sys.time() < end) Sys.sleep(0.01)
}

show <- function(table, file) {
  print(table, row.names = FALSE, digits = 3)
  cat("\n")
  utils::write.csv(table, report(paste0(file, ".csv")), row.names = FALSE)
}

option <- function(name, default) {
  hit <- grep(paste0("^--", name, "="), commandArgs(TRUE), value = TRUE)
  if (length(hit)) sub("^[^=]*=", "", hit[[1L]]) else default
}

# Lines over a log-log plane, each with its name at its right end. `x`: common; `ys`: named list.
lines_png <- function(file, x, ys, xlab, ylab, main) {
  path <- report(file)
  grDevices::png(path, 1000, 640, res = 110, type = if (capabilities("cairo")) "cairo" else "Xlib")
  graphics::par(mar = c(4.2, 5.5, 3, 10), las = 1)
  graphics::plot(range(x), range(unlist(ys), na.rm = TRUE), type = "n", log = "xy", xlab = xlab, ylab = "",
                 main = main, bty = "l")
  graphics::title(ylab = ylab, line = 4.2)
  cols <- grDevices::hcl.colors(max(3L, length(ys)), "Dark 3")
  last <- vapply(ys, function(y) y[max(which(!is.na(y)))], 1)
  at <- log10(last)
  gap <- diff(graphics::par("usr")[3:4]) * 0.05 # labels that would overlap move apart
  o <- order(at)
  for (k in seq_along(o)[-1L]) at[o[k]] <- max(at[o[k]], at[o[k - 1L]] + gap)
  for (i in seq_along(ys)) {
    graphics::lines(x, ys[[i]], type = "b", pch = 16, col = cols[i], lwd = 2)
    graphics::mtext(names(ys)[i], side = 4, at = 10^at[[i]], col = cols[i], line = 0.5)
  }
  grDevices::dev.off()
  cat("plot:", path, "\n")
}

private_mb <- function(pids) {
  stats::median(vapply(pids, function(p) {
    l <- grep("^Private_", readLines(file.path("/proc", p, "smaps_rollup")), value = TRUE)
    sum(as.numeric(gsub("[^0-9]", "", l[!grepl("Hugetlb", l)]))) / 1024
  }, 1))
}

# Microseconds, by the clock with the finest grain that R has
us <- function(expr) {
  t <- as.numeric(Sys.time())
  force(expr)
  1e6 * (as.numeric(Sys.time()) - t)
}

# Bars in groups over a log axis: `m` has a column for each group and a row for each who.
bars_png <- function(file, m, ylab, main, bar = NULL) {
  path <- report(file)
  grDevices::png(path, 1000, 640, res = 110, type = if (capabilities("cairo")) "cairo" else "Xlib")
  graphics::par(mar = c(4.5, 5, 3, 1), las = 1)
  low <- 10^floor(log10(min(m, na.rm = TRUE)))
  cols <- grDevices::hcl.colors(max(3L, nrow(m)), "Dark 3")[seq_len(nrow(m))]
  at <- graphics::barplot(m, beside = TRUE, log = "y", ylim = c(low, max(m, bar, na.rm = TRUE) * 4), col = cols,
                          ylab = ylab, main = main, border = NA)
  graphics::legend("topright", rownames(m), fill = cols, border = NA, bty = "n")
  graphics::text(at, m, ifelse(is.na(m), "", formatC(m, digits = 3, format = "fg", big.mark = ",")), pos = 3, cex = 0.75)
  if (!is.null(bar)) graphics::abline(h = bar, lty = 2)
  grDevices::dev.off()
  cat("plot:", path, "\n")
}

# This machine's addresses that are not loopback ones
local_addresses <- function() {
  out <- tryCatch(suppressWarnings(system2("hostname", "-I", stdout = TRUE, stderr = FALSE)), error = function(e) character())
  a <- unlist(strsplit(out, " +"))
  a[grepl("^[0-9.]+$", a)]
}

descriptors <- function() if (dir.exists("/proc/self/fd")) length(list.files("/proc/self/fd")) else NA_integer_
