/* Attributes of communicators, requests, statuses, infos and errors, as far as only C sees them: callbacks of all
 * kinds, deprecated functions, handles as integers. */
#include <stdarg.h>
#include <string.h>

#include "check.h"

static int copies, deletions, seen_code, seen_class;
static MPI_Comm seen_comm;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm;
    (void)key;
    CHECK(*(int *)extra == 5);
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm;
    (void)key;
    (void)value;
    CHECK(*(int *)extra == 5);
    deletions++;
    return MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag) {
    (void)type;
    (void)key;
    (void)extra;
    (void)in;
    (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static int refusal = MPI_ERR_OTHER;

static int refuse(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    return refusal;
}

static void attributes(void) {
    int key, old, fixed, extra = 5, value = 7, flag, *tag_max, type_key;
    void *got;
    MPI_Comm one, two;
    MPI_Datatype type, other;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &one));
    OK(MPI_Comm_create_keyval(copy, delete, &key, &extra));
    OK(MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &old, NULL));
    OK(MPI_Comm_set_attr(one, key, &value));
    OK(MPI_Attr_put(one, old, &extra));
    OK(MPI_Attr_get(one, old, &got, &flag));
    CHECK(flag && got == &extra);
    OK(MPI_Comm_dup(one, &two));
    OK(MPI_Comm_get_attr(two, key, &got, &flag));
    CHECK(flag && got == (char *)&value + 1 && copies == 1);
    OK(MPI_Attr_get(two, old, &got, &flag));
    CHECK(!flag);
    OK(MPI_Attr_delete(one, old));
    OK(MPI_Keyval_free(&old));
    CHECK(old == MPI_KEYVAL_INVALID);
    OK(MPI_Comm_delete_attr(two, key));
    CHECK(deletions == 1);
    OK(MPI_Comm_free(&two));
    OK(MPI_Comm_free_keyval(&key));
    /* The key is freed with its last attribute. */
    OK(MPI_Comm_free(&one));
    CHECK(deletions == 2 && key == MPI_KEYVAL_INVALID);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_max, &flag));
    CHECK(flag && *tag_max >= 32767);

    /* If the callback refuses to delete an attribute, the communicator stays. */
    OK(MPI_Comm_dup(MPI_COMM_SELF, &one));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, refuse, &fixed, NULL));
    OK(MPI_Comm_set_attr(one, fixed, &value));
    OK(MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK(MPI_Comm_delete_attr(one, fixed) != MPI_SUCCESS);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    refusal = MPI_SUCCESS;
    OK(MPI_Comm_free_keyval(&fixed));
    OK(MPI_Comm_free(&one));

    OK(MPI_Type_create_keyval(copy_type, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_set_attr(type, type_key, &value));
    OK(MPI_Type_dup(type, &other));
    OK(MPI_Type_get_attr(other, type_key, &got, &flag));
    CHECK(!flag);
    OK(MPI_Type_get_attr(type, type_key, &got, &flag));
    CHECK(flag && got == &value);
    OK(MPI_Type_delete_attr(type, type_key));
    OK(MPI_Type_free_keyval(&type_key));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&other));
}

static void handler(MPI_Comm *comm, int *code, ...) {
    seen_comm = *comm;
    seen_code = *code;
    OK(MPI_Error_class(*code, &seen_class));
}

static void errors(void) {
    MPI_Errhandler errhandler, same;
    MPI_Comm comm;
    int number = 0, class, code, len;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_errhandler(handler, &errhandler));
    OK(MPI_Comm_set_errhandler(comm, errhandler));
    OK(MPI_Errhandler_free(&errhandler));
    CHECK(errhandler == MPI_ERRHANDLER_NULL);
    code = MPI_Send(&number, 1, MPI_INT, 1000, 0, comm);
    CHECK(code == seen_code && seen_comm == comm && seen_class == MPI_ERR_RANK);
    /* An error of a request goes to its communicator too. */
    MPI_Request request;
    int rank;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Irecv(&number, 1, MPI_INT, rank, 1, comm, &request));
    OK(MPI_Send(text, 8, MPI_CHAR, rank, 1, comm));
    seen_comm = MPI_COMM_NULL;
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(code == seen_code && seen_comm == comm && seen_class == MPI_ERR_TRUNCATE);
    OK(MPI_Comm_get_errhandler(comm, &same));
    OK(MPI_Errhandler_free(&same));
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "of the program"));
    OK(MPI_Comm_call_errhandler(comm, code));
    CHECK(seen_code == code && seen_class == class);
    OK(MPI_Error_string(code, text, &len));
    CHECK(strcmp(text, "of the program") == 0 && len == 14);
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_class(class));
    OK(MPI_Comm_free(&comm));
}

static void statuses(void) {
    MPI_Status status;
    MPI_Request requests[3];
    int numbers[3] = {1, 2, 3}, got[3] = {0, 0, 0}, rank, flag, index, some, indices[3], value;
    MPI_Status several[3];
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Status_set_source(&status, 3));
    OK(MPI_Status_set_tag(&status, 4));
    OK(MPI_Status_set_error(&status, MPI_ERR_OTHER));
    OK(MPI_Status_set_elements(&status, MPI_INT, 6));
    OK(MPI_Status_set_cancelled(&status, 0));
    OK(MPI_Status_get_source(&status, &value));
    CHECK(value == 3 && status.MPI_SOURCE == 3);
    OK(MPI_Status_get_tag(&status, &value));
    CHECK(value == 4);
    OK(MPI_Status_get_error(&status, &value));
    CHECK(value == MPI_ERR_OTHER);
    OK(MPI_Get_count(&status, MPI_INT, &value));
    CHECK(value == 6);
    OK(MPI_Status_set_elements_x(&status, MPI_BYTE, 12));
    OK(MPI_Get_count(&status, MPI_INT, &value));
    CHECK(value == 3);

    for (int at = 0; at < 3; at++)
        OK(MPI_Irecv(&got[at], 1, MPI_INT, rank, at, MPI_COMM_WORLD, &requests[at]));
    OK(MPI_Request_get_status_any(3, requests, &index, &flag, &status));
    CHECK(!flag);
    OK(MPI_Send(&numbers[1], 1, MPI_INT, rank, 1, MPI_COMM_WORLD));
    do OK(MPI_Request_get_status_any(3, requests, &index, &flag, &status));
    while (!flag);
    CHECK(index == 1 && status.MPI_TAG == 1 && requests[1] != MPI_REQUEST_NULL);
    OK(MPI_Request_get_status_some(3, requests, &some, indices, several));
    CHECK(some == 1 && indices[0] == 1);
    OK(MPI_Request_get_status_all(3, requests, &flag, several));
    CHECK(!flag);
    OK(MPI_Send(&numbers[0], 1, MPI_INT, rank, 0, MPI_COMM_WORLD));
    OK(MPI_Send(&numbers[2], 1, MPI_INT, rank, 2, MPI_COMM_WORLD));
    do OK(MPI_Request_get_status_all(3, requests, &flag, several));
    while (!flag);
    OK(MPI_Waitall(3, requests, several));
    for (int at = 0; at < 3; at++) CHECK(got[at] == at + 1 && several[at].MPI_TAG == at);
}

static void infos(void) {
    MPI_Info info, same;
    char key[MPI_MAX_INFO_KEY], value[20];
    int number, flag, len;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "colour", "blue"));
    OK(MPI_Info_set(info, "shape", "round"));
    OK(MPI_Info_get_nkeys(info, &number));
    CHECK(number == 2);
    OK(MPI_Info_get_nthkey(info, 1, key));
    CHECK(strcmp(key, "shape") == 0);
    OK(MPI_Info_get(info, "colour", 2, value, &flag));
    CHECK(flag && strcmp(value, "bl") == 0);
    OK(MPI_Info_get_valuelen(info, "colour", &len, &flag));
    CHECK(flag && len == 4);
    len = sizeof value;
    OK(MPI_Info_get_string(info, "colour", &len, value, &flag));
    CHECK(flag && len == 5 && strcmp(value, "blue") == 0);
    OK(MPI_Info_dup(info, &same));
    OK(MPI_Info_delete(info, "colour"));
    OK(MPI_Info_get(same, "colour", 19, value, &flag));
    CHECK(flag);
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&same));
    CHECK(info == MPI_INFO_NULL);
}

static void numbers(void) {
    MPI_Count size, lower, extent;
    MPI_Aint low, wide, address, next;
    MPI_Datatype type;
    int major, minor, value;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    void *memory;
    OK(MPI_Type_vector(2, 1, 3, MPI_INT, &type));
    OK(MPI_Type_size_x(type, &size));
    OK(MPI_Type_get_extent_x(type, &lower, &extent));
    CHECK(size == 8 && lower == 0 && extent == 16);
    OK(MPI_Type_get_true_extent_x(type, &lower, &extent));
    OK(MPI_Type_get_true_extent(type, &low, &wide));
    CHECK(lower == 0 && extent == 16 && low == 0 && wide == 16);
    /* A handle as an integer, and back. */
    CHECK(MPI_Type_fromint(MPI_Type_toint(type)) == type);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    /* An object keeps its integer, which is invalid after the object is freed. */
    MPI_Info info;
    CHECK(MPI_Info_create(&info) == MPI_SUCCESS);
    int number = MPI_Info_toint(info);
    CHECK(number > 0 && MPI_Info_toint(info) == number && number != MPI_Type_toint(type));
    CHECK(MPI_Info_fromint(number) == info);
    CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
    CHECK(MPI_Info_fromint(number) == (MPI_Info)0);
    /* The same for an object that another object still uses when the program frees it. */
    MPI_Errhandler errhandler;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_create_errhandler(handler, &errhandler));
    number = MPI_Errhandler_toint(errhandler);
    OK(MPI_Comm_set_errhandler(comm, errhandler));
    OK(MPI_Errhandler_free(&errhandler));
    OK(MPI_Comm_free(&comm));
    CHECK(MPI_Errhandler_fromint(number) == (MPI_Errhandler)0);
    OK(MPI_Type_free(&type));
    OK(MPI_Alloc_mem(100, MPI_INFO_NULL, &memory));
    memset(memory, 1, 100);
    OK(MPI_Get_address(memory, &address));
    next = MPI_Aint_add(address, 10);
    CHECK(MPI_Aint_diff(next, address) == 10);
    OK(MPI_Free_mem(memory));
    OK(MPI_Get_version(&major, &minor));
    CHECK(major == 5 && minor == 0);
    OK(MPI_Abi_get_version(&major, &minor));
    CHECK(major == 1);
    OK(MPI_Get_library_version(text, &value));
    CHECK(strncmp(text, "Ferrywire", 9) == 0 && value == (int)strlen(text));
    OK(MPI_Get_processor_name(text, &value));
    CHECK(MPI_Wtick() > 0 && MPI_Wtime() >= 0);
}

int main(int argc, char **argv) {
    int level, main_thread, flag;
    OK(MPI_Initialized(&flag));
    CHECK(!flag);
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level));
    CHECK(level >= MPI_THREAD_FUNNELED);
    OK(MPI_Query_thread(&flag));
    OK(MPI_Is_thread_main(&main_thread));
    CHECK(flag == level && main_thread);
    attributes();
    errors();
    statuses();
    infos();
    numbers();
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK(flag);
    return 0;
}
