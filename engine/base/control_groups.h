/* control_groups.h - where the limits of this process are.
 *
 * Its own control group, of version 1 or 2, and all that this one is in, under /sys/fs/cgroup. Any
 * thread.
 */
#ifndef BASE_CONTROL_GROUPS_H
#define BASE_CONTROL_GROUPS_H

/* Tells the folder of each group that may limit what `controller` ("cpu", "memory") controls.
 * `root` stands in front of /proc and /sys. */
typedef void control_group_fn(void *user, const char *folder);
void control_groups_visit(const char *root, const char *controller, control_group_fn *tell,
                          void *user);

#endif
