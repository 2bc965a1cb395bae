#include "base/control_groups.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct visit {
    const char *root, *controller;
    control_group_fn *tell;
    void *user;
};

/* A group and all that it is in. In a container the path may be one of the host, of which nothing
 * is there but the last: the container's own group. */
static void visit_groups(const struct visit *visit, const char *mount, const char *path)
{
    char folder[PATH_MAX];
    size_t mount_bytes = strlen(mount);
    if (strstr(path, "/.."))
        path = "";
    if (mount_bytes + strlen(path) >= sizeof(folder))
        return;
    snprintf(folder, sizeof(folder), "%s%s", mount, path);
    for (;;) {
        visit->tell(visit->user, folder);
        char *slash = strrchr(folder + mount_bytes, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += bytes)
        if ((at == list || at[-1] == ',') && (at[bytes] == ',' || at[bytes] == '\0'))
            return true;
    return false;
}

/* A line of /proc/self/cgroup, "4:cpu,cpuacct:/path" or, of version 2, "0::/path". */
static void read_line(const struct visit *visit, char *line)
{
    char mount[PATH_MAX];
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : 0;
    if (!path)
        return;
    *path++ = '\0';
    controllers++;
    path[strcspn(path, "\n")] = '\0';
    if (*controllers && !has_word(controllers, visit->controller))
        return;
    snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s%s", visit->root, *controllers ? "/" : "",
             controllers);
    visit_groups(visit, mount, path);
    if (*controllers) { /* where version 1 is mounted under one name only */
        snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/%s", visit->root, visit->controller);
        visit_groups(visit, mount, path);
    }
}

void control_groups_visit(const char *root, const char *controller, control_group_fn *tell,
                          void *user)
{
    const struct visit visit = {root, controller, tell, user};
    char path[PATH_MAX], *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &capacity, file) > 0)
        read_line(&visit, line);
    free(line);
    if (file)
        fclose(file);
}
