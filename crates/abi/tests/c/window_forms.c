/* Every form of creating and accessing a window, with int counts and with large ones; attributes and handlers. */
#include "check.h"

#include <string.h>

enum { ITEMS = 8, PART = 4 };

typedef int unit;
typedef MPI_Aint unit_c;

static int rank, size, right, left;

/* Fills a part while nobody accesses it. */
static void fill(int *part, int base, MPI_Win win) {
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    for (int i = 0; i < ITEMS; i++)
        part[i] = base + i;
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Waits until all ranks have accessed, and checks this rank's part: its left neighbour accesses items from PART on. */
static void check_part(int *part, const int *untouched, const int *changed, MPI_Win win) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    OK(MPI_Win_sync(win));
    CHECK(memcmp(part, untouched, PART * sizeof(int)) == 0);
    CHECK(memcmp(part + PART, changed, PART * sizeof(int)) == 0);
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The accesses are to the right neighbour, with the displacement in items. */
#define TARGET right, PART, PART, MPI_INT

/* Runs accesses, without and with a request, to parts that hold 100 * rank + i. */
#define ACCESSES(call)                        \
    do {                                      \
        fill(part, 100 * rank, win);          \
        for (int i = 0; i < PART; i++)        \
            got[i] = -1;                      \
        OK(MPI_Win_lock_all(0, win));         \
        call;                                 \
        OK(MPI_Win_flush_local(right, win));  \
        memcpy(local, got, sizeof local);     \
        OK(MPI_Win_unlock_all(win));          \
        check_part(part, before, after, win); \
    } while (0)
#define REQUESTED(call)                            \
    do {                                           \
        OK(call);                                  \
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE)); \
        CHECK(request == MPI_REQUEST_NULL);        \
    } while (0)
/* What the part of this rank and what the caller has afterwards. */
#define EXPECT(array, expression)  \
    for (int i = 0; i < PART; i++) \
    (array)[i] = (expression)
#define FETCHED CHECK(memcmp(local, others, sizeof local) == 0)

#define VARIANT(c)                                                                                             \
    static void accesses##c(int *part, MPI_Win win) {                                                          \
        int data[PART], got[PART], local[PART], before[PART], after[PART], others[PART];                       \
        MPI_Request request;                                                                                   \
        EXPECT(data, 1000 * (rank + 1) + i);                                                                   \
        EXPECT(before, 100 * rank + i);                                                                        \
        EXPECT(others, 100 * right + PART + i);                                                                \
                                                                                                               \
        EXPECT(after, 1000 * (left + 1) + i);                                                                  \
        ACCESSES(OK(MPI_Put##c(data, PART, MPI_INT, TARGET, win)));                                            \
        ACCESSES(REQUESTED(MPI_Rput##c(data, PART, MPI_INT, TARGET, win, &request)));                          \
                                                                                                               \
        EXPECT(after, 100 * rank + PART + i);                                                                  \
        ACCESSES(OK(MPI_Get##c(got, PART, MPI_INT, TARGET, win)));                                             \
        FETCHED;                                                                                               \
        ACCESSES(REQUESTED(MPI_Rget##c(got, PART, MPI_INT, TARGET, win, &request)));                           \
        FETCHED;                                                                                               \
                                                                                                               \
        EXPECT(after, 100 * rank + PART + i + 1000 * (left + 1) + i);                                          \
        ACCESSES(OK(MPI_Accumulate##c(data, PART, MPI_INT, TARGET, MPI_SUM, win)));                            \
        ACCESSES(REQUESTED(MPI_Raccumulate##c(data, PART, MPI_INT, TARGET, MPI_SUM, win, &request)));          \
        ACCESSES(OK(MPI_Get_accumulate##c(data, PART, MPI_INT, got, PART, MPI_INT, TARGET, MPI_SUM, win)));    \
        FETCHED;                                                                                               \
        ACCESSES(REQUESTED(                                                                                    \
            MPI_Rget_accumulate##c(data, PART, MPI_INT, got, PART, MPI_INT, TARGET, MPI_SUM, win, &request))); \
        FETCHED;                                                                                               \
    }                                                                                                          \
                                                                                                               \
    static void check_unit##c(MPI_Win win, int bytes) {                                                        \
        int *found = NULL, flag = 0;                                                                           \
        OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &found, &flag));                                           \
        CHECK(flag && *found == bytes);                                                                        \
    }                                                                                                          \
                                                                                                               \
    static void windows##c(void) {                                                                             \
        const unit##c four = sizeof(int);                                                                      \
        int memory[ITEMS], *part = NULL;                                                                       \
        MPI_Win win;                                                                                           \
        OK(MPI_Win_create##c(memory, sizeof memory, four, MPI_INFO_NULL, MPI_COMM_WORLD, &win));               \
        check_unit##c(win, four);                                                                              \
        accesses##c(memory, win);                                                                              \
        OK(MPI_Win_free(&win));                                                                                \
        OK(MPI_Win_allocate##c(sizeof memory, four, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win));              \
        check_unit##c(win, four);                                                                              \
        accesses##c(part, win);                                                                                \
        OK(MPI_Win_free(&win));                                                                                \
        OK(MPI_Win_allocate_shared##c(sizeof memory, four, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win));       \
        check_unit##c(win, four);                                                                              \
        accesses##c(part, win);                                                                                \
                                                                                                               \
        unit##c found = -1;                                                                                    \
        MPI_Aint bytes = -1;                                                                                   \
        int *theirs = NULL;                                                                                    \
        OK(MPI_Win_shared_query##c(win, right, &bytes, &found, &theirs));                                      \
        CHECK(bytes == sizeof memory && found == four && (theirs == part) == (size == 1));                     \
        fill(part, 7 * rank, win);                                                                             \
        OK(MPI_Win_lock_all(0, win));                                                                          \
        OK(MPI_Win_sync(win));                                                                                 \
        CHECK(theirs[3] == 7 * right + 3);                                                                     \
        OK(MPI_Win_unlock_all(win));                                                                           \
        OK(MPI_Win_free(&win));                                                                                \
    }
VARIANT()
VARIANT(_c)

static int deleted = 0;
static int delete_attribute(MPI_Win win, int keyval, void *attribute, void *extra) {
    CHECK(win != MPI_WIN_NULL && keyval != MPI_KEYVAL_INVALID && extra == &deleted);
    deleted += *(int *)attribute;
    return MPI_SUCCESS;
}

static void attributes(MPI_Win win) {
    static int one = 1, ten = 10;
    int keyval, flag = -1, *found = NULL;
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_attribute, &keyval, &deleted));
    OK(MPI_Win_get_attr(win, keyval, &found, &flag));
    CHECK(!flag);
    OK(MPI_Win_set_attr(win, keyval, &one));
    OK(MPI_Win_get_attr(win, keyval, &found, &flag));
    CHECK(flag && found == &one);
    OK(MPI_Win_set_attr(win, keyval, &ten));
    CHECK(deleted == 1);
    OK(MPI_Win_delete_attr(win, keyval));
    CHECK(deleted == 11);
    OK(MPI_Win_get_attr(win, keyval, &found, &flag));
    CHECK(!flag);
    OK(MPI_Win_set_attr(win, keyval, &one)); /* The end of the window deletes it. */
    OK(MPI_Win_free_keyval(&keyval));
    CHECK(keyval == MPI_KEYVAL_INVALID);
}

static int handled = 0;
static void handle(MPI_Win *win, int *code, ...) {
    int class;
    CHECK(*win != MPI_WIN_NULL);
    OK(MPI_Error_class(*code, &class));
    handled += class;
}

static void handlers(MPI_Win win) {
    MPI_Errhandler first, handler, found;
    int value = 0, class;
    OK(MPI_Win_get_errhandler(win, &first));
    CHECK(first == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Win_create_errhandler(handle, &handler));
    OK(MPI_Win_set_errhandler(win, handler));
    OK(MPI_Win_get_errhandler(win, &found));
    CHECK(found == handler);
    OK(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    CHECK(handled == MPI_ERR_OTHER);
    handled = 0;
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Error_class(MPI_Put(&value, 1, MPI_INT, size, 0, 1, MPI_INT, win), &class));
    OK(MPI_Win_unlock_all(win));
    CHECK(class == MPI_ERR_RANK && handled == class);
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Errhandler_free(&found));
}

static void names_and_infos(MPI_Win win) {
    char name[MPI_MAX_OBJECT_NAME] = "?", text[16] = "";
    int len = -1, flag = 0;
    MPI_Info info, used;
    OK(MPI_Win_get_name(win, name, &len));
    CHECK(len == 0 && name[0] == '\0');
    OK(MPI_Win_set_name(win, "halo"));
    OK(MPI_Win_get_name(win, name, &len));
    CHECK(len == 4 && strcmp(name, "halo") == 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "no_locks", "false"));
    OK(MPI_Win_set_info(win, info));
    OK(MPI_Info_free(&info));
    OK(MPI_Win_get_info(win, &used));
    len = sizeof text;
    OK(MPI_Info_get_string(used, "no_locks", &len, text, &flag));
    CHECK(flag && strcmp(text, "false") == 0);
    OK(MPI_Info_free(&used));
}

int main(int argc, char **argv) {
    MPI_Win win;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    windows();
    windows_c();
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    attributes(win);
    handlers(win);
    names_and_infos(win);
    CHECK(MPI_Win_fromint(MPI_Win_toint(win)) == win);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    OK(MPI_Win_free(&win));
    CHECK(deleted == 12);
    return MPI_Finalize();
}
