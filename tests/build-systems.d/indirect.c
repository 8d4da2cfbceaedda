#include <stdio.h>

int sum(int mine);

int main(void) {
    int all = sum(7);
    printf("sum %d\n", all);
    return all == 21 ? 0 : 1;
}
